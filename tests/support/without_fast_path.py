"""Runs the command line of the acker without its fast paths: FastAPI answers every request, and no batch is plain."""

from acker_service.__main__ import main
from acker_service.http.fast_path import FastPath
from acker_service.operations.plain_batch import PlainBatch

if __name__ == "__main__":
    FastPath.enabled = PlainBatch.enabled = False
    main()
