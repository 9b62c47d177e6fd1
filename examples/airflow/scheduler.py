"""Starts a real Airflow in its own environment: API server, scheduler and DAG processor, on a free port."""

import contextlib
import json
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx

from examples.airflow.api import AirflowApi
from examples.airflow.receiver import ASSET
from examples.support.ports import free_port
from examples.support.processes import Child, Processes

HERE = Path(__file__).parent
PROGRAM = Path(sys.prefix) / "airflow/bin/airflow"
PARTS = ("api-server", "scheduler", "dag-processor")
START_S = 300.0
USER = "receiver"


class NoAirflow(Exception):
    """Airflow is not installed."""


@contextlib.contextmanager
def running_airflow(processes: Processes, sales: Path) -> Iterator[AirflowApi]:
    """Start Airflow and wait until it has read the DAG. Raises `NoAirflow`, and `Died` if it does not get there."""
    if not PROGRAM.exists():
        raise NoAirflow(f"there is no {PROGRAM}: run `make airflow`")
    api = AirflowApi(url=f"http://127.0.0.1:{free_port()}", user=USER, password=secrets.token_urlsafe(16))
    environment = settings(processes.folder / "airflow", api, sales)
    database = processes.start("airflow-database", [str(PROGRAM), "db", "migrate"], environment=environment)
    database.wait_until(lambda: not database.runs and database.process.returncode == 0, within=START_S)
    children = [processes.start(f"airflow-{part}", [str(PROGRAM), part], environment=environment) for part in PARTS]
    try:
        for child in children:
            child.wait_until(lambda: is_ready(api), within=START_S)
        yield api
    finally:
        end(children)


def settings(home: Path, api: AirflowApi, sales: Path) -> dict[str, str]:
    """Write the file of passwords; give Airflow's settings as variables."""
    home.mkdir(parents=True)
    passwords = home / "passwords.json"
    passwords.write_text(json.dumps({api.user: api.password}))
    core = "AIRFLOW__CORE__"
    return {
        "AIRFLOW_HOME": str(home),
        "SALES_FOLDER": str(sales),
        f"{core}DAGS_FOLDER": str(HERE / "dags"),
        f"{core}LOAD_EXAMPLES": "False",
        f"{core}DAGS_ARE_PAUSED_AT_CREATION": "False",
        f"{core}EXECUTOR": "LocalExecutor",
        f"{core}PARALLELISM": "2",
        f"{core}SIMPLE_AUTH_MANAGER_USERS": f"{api.user}:op",
        f"{core}SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        f"{core}EXECUTION_API_SERVER_URL": f"{api.url}/execution/",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": api.url.rpartition(":")[2],
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API__SECRET_KEY": secrets.token_urlsafe(32),
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_urlsafe(64),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def is_ready(api: AirflowApi) -> bool:
    """Return whether Airflow knows the asset of the DAG, and its scheduler is healthy."""
    with contextlib.suppress(httpx.HTTPError, LookupError):
        api.asset_id(ASSET)
        health = httpx.get(f"{api.url}/api/v2/monitor/health", trust_env=False, timeout=10).raise_for_status().json()
        return bool(health["scheduler"]["status"] == "healthy")
    return False


def end(children: list[Child]) -> None:
    """End Airflow, also what its parts have started."""
    for child in reversed(children):
        child.process.terminate()
    for child in reversed(children):
        child.wait(within=10)
        child.kill_group()
