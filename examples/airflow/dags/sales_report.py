"""The DAG: each event of the asset `sales` names an hour that has landed whole, and builds its report."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from airflow.sdk import Asset, dag, task

SALES = Asset(name="sales", uri="acker://sales")
REPORT = Path(__file__).parents[1] / "report.py"


@dag(schedule=[SALES])
def sales_report() -> None:
    """Run the report's script for each hour that has landed since the last run."""

    @task
    def build(triggering_asset_events: Any = None) -> None:
        for event in triggering_asset_events[SALES]:
            subprocess.run([sys.executable, REPORT, os.environ["SALES_FOLDER"], event.extra["hour"]], check=True)

    build()


sales_report()
