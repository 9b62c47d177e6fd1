"""``acker health``: whether an acker is ready."""

import os
import sys
from collections.abc import Sequence
from contextlib import closing

from acker_client._cli.former_names import add_former_option
from acker_client._cli.parsing import Parser, print_line
from acker_client._cli.service import Service
from acker_client.config import Address
from acker_client.errors import AckerError

TIMEOUT_S = 5.0
DEFAULT_PORT = "8700"


def main(arguments: Sequence[str], *, description: str | None) -> int:
    """Print what the acker says of itself; 0 if it is ready, else 1."""
    parser = Parser("health", description)
    add = parser.options.add_argument
    place = "Where the acker serves [ACKER_URL; without it this machine, by ACKER_PORT and ACKER_TLS_CERT]."
    add("--acker", metavar="URL", help=place)
    add_former_option(parser, "--url", now="--acker")
    add("--live", action="store_true", help="Ask only whether the process runs.")
    found = parser.parse_args(arguments)
    named = os.environ.get("ACKER_URL") if found.acker is None else found.acker
    address = Address(url=named or _on_this_machine())
    try:
        with closing(Service(address, timeout_s=TIMEOUT_S, checks_certificate=bool(named))) as service:
            is_well, status = service.probe("/livez" if found.live else "/readyz")
    except AckerError as error:
        print_line(f"acker: {error}", file=sys.stderr)
        return 1
    print_line(status)
    return 0 if is_well else 1


def _on_this_machine() -> str:
    """Return the address of `acker serve` here; Kubernetes fills ACKER_PORT with a URL where a service has that name.

    Its certificate is for the name by which others call it, and so not checked.
    """
    port, scheme = os.environ.get("ACKER_PORT", ""), "https" if os.environ.get("ACKER_TLS_CERT") else "http"
    return f"{scheme}://127.0.0.1:{port if port.isdecimal() else DEFAULT_PORT}"
