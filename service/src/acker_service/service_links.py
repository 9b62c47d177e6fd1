"""Finds the variables ACKER_… by which Kubernetes announces Services, and which are no settings."""

import logging
import os
import re
from collections.abc import Mapping

from acker_service.setting_errors import PREFIX

_LINK = re.compile(r"(tcp|udp|sctp)://", re.IGNORECASE)
"""How the value begins that Kubernetes gives to the variable …_PORT of a Service."""
_HOST_OF_LINK = "_SERVICE_HOST"

_log = logging.getLogger(__name__)


def service_links(environment: Mapping[str, str]) -> list[str]:
    """List the variables by which Kubernetes tells a container the addresses of the Services in its namespace.

    A Service ``acker-x`` sets ACKER_X_SERVICE_HOST, ACKER_X_SERVICE_PORT…, ACKER_X_PORT (``tcp://…``) and
    ACKER_X_PORT_…; those of a Service ``acker`` are links even without ACKER_SERVICE_HOST.
    """
    names = [name for name in environment if name.upper().startswith(PREFIX)]
    hosts = (name.upper() for name in names if name.upper().endswith(_HOST_OF_LINK))
    services = {"ACKER"} | {name.removesuffix(_HOST_OF_LINK) for name in hosts}
    return sorted(name for name in names if _is_link(name.upper(), environment[name], services))


def log_service_links() -> None:
    """Warn once of the service links that are passed over."""
    if links := service_links(os.environ):
        _log.warning(
            "passed over, for they are service links of Kubernetes and no settings: %s; "
            "to be rid of them, set enableServiceLinks: false in the spec of the pod",
            ", ".join(links),
        )


def _is_link(name: str, value: str, services: set[str]) -> bool:
    """Return whether a variable is a service link of one of these Services, given as ACKER or ACKER_X."""
    is_address = _LINK.match(value) is not None
    return any(
        name.startswith((f"{service}_SERVICE_", f"{service}_PORT_")) or (is_address and name == f"{service}_PORT")
        for service in services
    )
