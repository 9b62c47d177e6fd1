"""Applications that do nothing, served as the acker is: what HTTP alone costs, and how fast the load can come.

`python -m bench.nothing echo --port N` reads bodies and answers a few bytes, without a framework; `empty` is an empty
route of FastAPI.
"""

import argparse
from typing import Any

import uvicorn
from fastapi import FastAPI

ANSWER = b'{"accepted":0}'
_START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(ANSWER)).encode())],
}

empty = FastAPI(docs_url=None, redoc_url=None)


@empty.get("/readyz")
@empty.post("/")
async def route() -> dict[str, int]:
    """Do nothing."""
    return {"accepted": 0}


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Read what comes and answer the same few bytes."""
    assert scope["type"] == "http"
    while (await receive()).get("more_body"):
        pass
    await send(_START)
    await send({"type": "http.response.body", "body": ANSWER})


def main() -> None:
    """Serve one of them until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=("echo", "empty"))
    parser.add_argument("--port", type=int, required=True)
    asked = parser.parse_args()
    app: Any = {"echo": echo, "empty": empty}[asked.kind]
    uvicorn.run(
        app,
        port=asked.port,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
    )


if __name__ == "__main__":
    main()
