"""Client of the notice service: sends the status of an order."""

import httpx

from examples.support import notice_service
from examples.support.http_service import read_ledger, start_service
from examples.support.processes import Processes
from examples.support.statuses import Status


class NoticeFault(Exception):
    """The notice service did not take note, or it is not known whether it did: worth another try."""


class Notices:
    """The notice service as workers see it, for any number of threads."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=5.0, trust_env=False)

    def send(self, order_id: str, status: Status) -> None:
        """Tell what became of an order. Raises `NoticeFault`."""
        try:
            self._http.post("/notices", json={"orderId": order_id, "status": status}).raise_for_status()
        except httpx.HTTPError as error:
            raise NoticeFault(f"the notice service did not take note: {type(error).__name__}") from error

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def start_notice_service(processes: Processes) -> str:
    """Start the notice service, and return its address."""
    return start_service(processes, "notice_service", notice_service.Task())


def read_notices(url: str) -> dict[str, dict[str, int]]:
    """Ask how often the notice service got which status, by order."""
    return dict(read_ledger(url))
