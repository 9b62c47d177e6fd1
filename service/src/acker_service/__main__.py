"""Knows the command line."""

import asyncio
import contextlib
from pathlib import Path
from typing import Annotated

import httpx
import typer
import uvloop

from acker_service import VERSION
from acker_service.key_commands import cli as key_commands
from acker_service.metrics.logs import start_logging
from acker_service.settings import Settings, read_settings

cli = typer.Typer(name="acker", no_args_is_help=True, add_completion=False, rich_markup_mode=None)
cli.add_typer(key_commands, name="key")


def _option(help_: str) -> object:
    return typer.Option(help=help_, show_default=False)


@cli.callback()
def acker() -> None:
    """Tell the sender of a message when everything that grew out of it is done."""


@cli.command()
def serve(
    *,
    redis_url: Annotated[
        str | None, _option("Redis or Valkey: redis://, redis+sentinel:// or redis+cluster://… [none: an embedded one]")
    ] = None,
    host: Annotated[str | None, _option("Address to listen on [127.0.0.1]")] = None,
    port: Annotated[int | None, _option("Port to listen on [8700]")] = None,
    data_dir: Annotated[Path | None, _option("Folder of the embedded store [the user's state folder]")] = None,
    store_port: Annotated[int | None, _option("Port of the embedded store [none: a private socket]")] = None,
    open_: Annotated[
        bool | None, typer.Option("--open/--closed", help="Serve others than this machine without keys")
    ] = None,
    keys_file: Annotated[Path | None, _option("File of keys [none: ask for no key]")] = None,
    durability: Annotated[str | None, _option("When a write counts: relaxed, fsync or replica:n [relaxed]")] = None,
    fsync_asserted: Annotated[
        bool | None, typer.Option("--fsync-asserted", help="Vouch for appendfsync always where Redis does not tell")
    ] = None,
    idempotency_window_ms: Annotated[int | None, _option("How long request keys are remembered [600000]")] = None,
    buckets: Annotated[int | None, _option("Small hashes a shard of a new topology has [4096]")] = None,
    mailbox_max: Annotated[int | None, _option("Unread completions of a spout task, at most [1000000]")] = None,
    spout_idle_ms: Annotated[int | None, _option("How long an ephemeral spout task stays unused [86400000]")] = None,
    tick_ms: Annotated[int | None, _option("How often overdue roots are looked for [250]")] = None,
    max_body_bytes: Annotated[int | None, _option("Largest body that is taken [4194304]")] = None,
    max_batch: Annotated[int | None, _option("Most operations in a batch [10000]")] = None,
    max_in_flight: Annotated[int | None, _option("Most requests worked on at once [1000]")] = None,
    max_in_flight_bytes: Annotated[int | None, _option("Most bytes their bodies hold together [67108864]")] = None,
    max_waiting: Annotated[int | None, _option("Most requests that wait for news at once [10000]")] = None,
    max_connections: Annotated[int | None, _option("Most connections at once [16384]")] = None,
    max_header_bytes: Annotated[int | None, _option("Largest head of a request [65536]")] = None,
    body_timeout_s: Annotated[float | None, _option("How long a request may take to arrive [30]")] = None,
    keep_alive_s: Annotated[int | None, _option("How long an idle connection is kept [75]")] = None,
    backlog: Annotated[int | None, _option("Connections that may wait to be accepted [2048]")] = None,
    role: Annotated[str | None, _option("What this process does: all, api or worker [all]")] = None,
    callback_allow_cidrs: Annotated[
        str | None, _option("Networks that are not public, to which webhooks may go [none]")
    ] = None,
    callback_allow_hosts: Annotated[
        str | None, _option("Hosts to which webhooks may go whatever their address [none]")
    ] = None,
    callback_schedule_s: Annotated[
        str | None, _option("Seconds before each further try [1,5,30,120,600,1800,7200,18000,36000,36000]")
    ] = None,
    callback_retry_after_max_s: Annotated[
        float | None, _option("For how long a receiver may ask to be left alone, at most [3600]")
    ] = None,
    callback_timeout_s: Annotated[float | None, _option("How long a post to a webhook may take [30]")] = None,
    callback_max_batch: Annotated[int | None, _option("Most completions delivered together [500]")] = None,
    callback_max_wait_ms: Annotated[int | None, _option("How long completions wait for others [20]")] = None,
    log_level: Annotated[str | None, _option("debug, info, warning or error [info]")] = None,
    log_format: Annotated[str | None, _option("text or json [text]")] = None,
) -> None:
    """Serve the acker. Every option can be set in the environment too: --data-dir is ACKER_DATA_DIR."""
    options = dict(locals())
    options["open"] = options.pop("open_")
    try:
        settings = read_settings(**options)
        start_logging(level=settings.log_level, style=settings.log_format)
        _serve(settings)
    except (RuntimeError, ValueError) as fault:
        typer.echo(f"acker: {fault}", err=True)
        raise typer.Exit(2) from None


def _serve(settings: Settings) -> None:
    """Serve until told to stop. What serves takes a second to import, and the other commands do without it."""
    from acker_service.server import serve as serve_forever  # noqa: PLC0415

    with contextlib.suppress(asyncio.CancelledError):  # told to stop before it had begun
        uvloop.run(serve_forever(settings))


@cli.command()
def health(
    url: Annotated[str | None, _option("Where the acker serves [this machine, the port of ACKER_PORT]")] = None,
    *,
    live: Annotated[bool, typer.Option("--live", help="Ask only whether the process runs.")] = False,
) -> None:
    """Ask an acker whether it is ready; exit 0 if it is, 1 if not."""
    try:
        url = (url or f"http://127.0.0.1:{read_settings(open=True).port}").rstrip("/")
        answer = httpx.get(f"{url}/{'livez' if live else 'readyz'}", timeout=5)
        status = answer.json()["status"]
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as fault:
        typer.echo(f"no acker answers at {url or 'the address of the settings'}: {fault}", err=True)
        raise typer.Exit(1) from None
    typer.echo(status)
    raise typer.Exit(0 if answer.is_success else 1)


@cli.command()
def version() -> None:
    """Print the version."""
    typer.echo(VERSION)


def main() -> None:
    """Run the command line."""
    cli()


if __name__ == "__main__":
    main()
