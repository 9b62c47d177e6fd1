"""Fuzz one target with atheris: ``python -m tests.fuzz.one TARGET ADDRESS OPTIONS…``, whose options are libFuzzer's.

`tests.fuzz` starts it, in the environment that has atheris.
"""

import sys

import atheris

with atheris.instrument_imports(include=["acker_protocol", "acker_client", "acker_service"]):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    """Fuzz until libFuzzer ends this process."""
    name, address, *options = sys.argv[1:]
    atheris.Setup([sys.argv[0], *options], TARGETS[name].make(address))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
