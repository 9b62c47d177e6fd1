"""Calls Airflow's REST API: the events of an asset, and the runs of a DAG."""

from dataclasses import dataclass
from typing import Any

import httpx

TIMEOUT_S = 15.0
"""Less than the receiver of a webhook has for all it does (20 s)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AirflowApi:
    """An Airflow, and the user who calls it."""

    url: str
    user: str
    password: str

    def create_event(self, asset: str, extra: dict[str, str]) -> None:
        """Create an event of an asset. Raises ``httpx.HTTPError``, ``LookupError``."""
        self._call("POST", "/api/v2/assets/events", json={"asset_id": self.asset_id(asset), "extra": extra})

    def events(self, asset: str) -> list[dict[str, Any]]:
        """List the events of an asset, oldest first."""
        of_asset = {"asset_id": self.asset_id(asset), "order_by": "timestamp"}
        found = self._call("GET", "/api/v2/assets/events", params=of_asset)
        return [event["extra"] for event in found["asset_events"]]

    def runs(self, dag: str) -> list[str]:
        """Return the state of each run of a DAG."""
        return [run["state"] for run in self._call("GET", f"/api/v2/dags/{dag}/dagRuns")["dag_runs"]]

    def asset_id(self, asset: str) -> int:
        """Return the id of an asset. Raises ``LookupError`` until Airflow has read the DAG that names it."""
        assets = self._call("GET", "/api/v2/assets", params={"name_pattern": asset})["assets"]
        ids: list[int] = [each["id"] for each in assets if each["name"] == asset]
        if not ids:
            raise LookupError(f"{self.url} has no asset {asset!r}: has Airflow read the DAG that names it?")
        return ids[0]

    def _call(self, method: str, path: str, **more: Any) -> Any:
        with httpx.Client(base_url=self.url, timeout=TIMEOUT_S, trust_env=False) as http:
            login = http.post("/auth/token", json={"username": self.user, "password": self.password})
            token = login.raise_for_status().json()["access_token"]
            answer = http.request(method, path, headers={"Authorization": f"Bearer {token}"}, **more)
            return answer.raise_for_status().json()
