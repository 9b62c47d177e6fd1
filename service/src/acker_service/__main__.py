"""The command line: ``acker serve``, ``acker health``, ``acker key make``, ``acker version``."""

import asyncio
import contextlib
import inspect
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn, get_args

import httpx
import typer
import uvloop
from pydantic.fields import FieldInfo

from acker_service import VERSION
from acker_service.http.keys import entry
from acker_service.metrics.logs import start_logging
from acker_service.settings import Settings, log_service_links, read_settings

KEY_PREFIX = "acker_"
"""The prefix of every key, by which a leaked one is recognised."""

cli = typer.Typer(name="acker", no_args_is_help=True, add_completion=False, rich_markup_mode=None)
keys = typer.Typer(no_args_is_help=True, help="Make keys.")
cli.add_typer(keys, name="key")


@cli.callback()
def acker() -> None:
    """Tell the sender of a message when everything that grew out of it is done."""


@keys.callback()
def key() -> None:
    """Make keys."""


def _option(name: str, field: FieldInfo) -> inspect.Parameter:
    """Make the option of a setting; without it the setting comes from the environment, or is its default."""
    types = (field.annotation, *get_args(field.annotation))
    kind: Any = next((known for known in (bool, int, float, Path) if known in types), str)
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    declaration = str(extra.get("option", f"--{name.replace('_', '-')}"))
    help_ = field.description or ""
    if kind is not bool and not help_.endswith("]"):
        help_ += f" [{field.default}]"
    annotation = Annotated[kind | None, typer.Option(declaration, help=help_, show_default=False)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _with_an_option_for_each_setting(command: Callable[..., None]) -> Callable[..., None]:
    options = [_option(name, field) for name, field in Settings.model_fields.items()]
    command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    command.__annotations__ = {option.name: option.annotation for option in options}
    return command


@cli.command()
@_with_an_option_for_each_setting
def serve(**options: Any) -> None:
    """Serve the acker. Every option can be set in the environment too: --data-dir is ACKER_DATA_DIR."""
    try:
        settings = read_settings(**options)
        start_logging(level=settings.log_level, style=settings.log_format)
        log_service_links()
        _serve(settings)
    except (RuntimeError, ValueError) as error:
        _fail(f"acker: {error}", code=2)


def _serve(settings: Settings) -> None:
    """Serve until a signal. Importing the server takes a second, which the other commands are spared."""
    from acker_service.server import serve as serve_forever  # noqa: PLC0415

    with contextlib.suppress(asyncio.CancelledError):  # a signal came before the server handled signals
        uvloop.run(serve_forever(settings))


@cli.command()
def health(
    url: Annotated[
        str | None,
        typer.Option(help="Where the acker serves [this machine, the port of ACKER_PORT]", show_default=False),
    ] = None,
    *,
    live: Annotated[bool, typer.Option("--live", help="Ask only whether the process runs.")] = False,
) -> None:
    """Ask an acker whether it is ready; exit 0 if it is, 1 if not."""
    try:
        url = (url or f"http://127.0.0.1:{read_settings(open=True).port}").rstrip("/")
        response = httpx.get(f"{url}/{'livez' if live else 'readyz'}", timeout=5)
        status = response.json()["status"]
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
        _fail(f"no acker answers at {url or 'the address of the settings'}: {error}", code=1)
    typer.echo(status)
    raise typer.Exit(0 if response.is_success else 1)


@keys.command()
def make(
    name: Annotated[str, typer.Option(help="What the key is called in answers and logs.")],
    scope: Annotated[str, typer.Option(help="ack, spout or admin.")],
    topology: Annotated[list[str] | None, typer.Option(help="A topology it is for; repeat it for more [all]")] = None,
) -> None:
    """Make a key. Prints it, this once, and on the next line its entry for the file of keys, which holds a hash."""
    secret = KEY_PREFIX + secrets.token_urlsafe(32)
    try:
        line = entry(name, secret, scope=scope, topologies=topology or [])
    except ValueError as error:
        _fail(f"acker: {error}", code=2)
    typer.echo('The key, shown only now, and its entry for the "keys" of ACKER_KEYS_FILE:', err=True)
    typer.echo(secret)
    typer.echo(line)


@cli.command()
def version() -> None:
    """Print the version."""
    typer.echo(VERSION)


def _fail(message: str, *, code: int) -> NoReturn:
    """Print an error message and exit."""
    typer.echo(message, err=True)
    raise typer.Exit(code) from None


def main() -> None:
    """Run the command line."""
    cli()


if __name__ == "__main__":
    main()
