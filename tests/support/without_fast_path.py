"""Runs the command line of the acker without its fast paths: FastAPI answers every request, no batch is plain, and
each round trip to Redis has a connection of the pool to itself.
"""

from acker_service.__main__ import main
from acker_service.http.fast_path import FastPath
from acker_service.operations.plain_batch import PlainBatch
from acker_service.redis.pipeline import Pipeline

if __name__ == "__main__":
    FastPath.enabled = PlainBatch.enabled = Pipeline.enabled = False
    main()
