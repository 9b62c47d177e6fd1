"""Runs the command line of the acker without its fast path, so that FastAPI answers every request."""

from acker_service.__main__ import main
from acker_service.http.fast_path import FastPath

if __name__ == "__main__":
    FastPath.enabled = False
    main()
