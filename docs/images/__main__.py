"""Writes the drawings beside this file; with ``demo`` also the recording, from a run of the word count."""

import argparse
from pathlib import Path

from docs.images.drawings import DRAWINGS
from docs.images.recording import record

FOLDER = Path(__file__).parent


def main() -> None:
    """Read the command line and write the files."""
    parser = argparse.ArgumentParser(prog="python -m docs.images", description=__doc__)
    parser.add_argument("what", nargs="?", choices=["drawings", "demo"], default="drawings")
    if parser.parse_args().what == "demo":
        (FOLDER / "demo.svg").write_text(record())
    for name, make in DRAWINGS.items():
        (FOLDER / f"{name}.svg").write_text(make().render())


if __name__ == "__main__":
    main()
