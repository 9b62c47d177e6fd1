"""The command line: ``acker serve``, ``acker bench``, ``acker config``, ``acker key make``."""

import asyncio
import contextlib
import inspect
import logging
import re
import secrets
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, NoReturn, get_args

import typer
import uvloop
from acker_protocol.errors import AckerError
from acker_protocol.redis_url import without_login
from acker_protocol.terminal import printable
from pydantic.fields import FieldInfo
from typer.core import TyperGroup

from acker_service import VERSION
from acker_service.claims import claim, start_line
from acker_service.http.keys import configured_keys, entry
from acker_service.metrics.logs import start_logging
from acker_service.service_links import log_service_links
from acker_service.setting_errors import option_of
from acker_service.settings import Settings, read_settings, setting

_log = logging.getLogger("acker_service.server")

KEY_PREFIX = "acker_"
"""The prefix of every key, by which a leaked one is recognised."""

_UsageError: Any = typer.BadParameter.__base__
"""What a command line raises that cannot be read; typer exports the errors derived from it only."""

_ADDRESS = re.compile(r"\S+://\S+")
"""An address in an error: it may hold a password."""


class Commands(TyperGroup):
    """The commands. A command line that cannot be read is an error of one line, like every other."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run the command that the arguments name; exit 2 if they cannot be read."""
        try:
            if code := super().main(*args, **options | {"standalone_mode": False}):
                raise SystemExit(code)
        except typer.Abort:
            raise SystemExit(130) from None
        except _UsageError as error:
            typer.echo(_in_one_line(error), err=True)
            raise SystemExit(error.exit_code) from None


def _in_one_line(error: Any) -> str:
    """Describe a usage error in one line, without addresses; where no command is named at all, give the help."""
    message = _ADDRESS.sub("…", error.format_message().rstrip("."))
    if message.startswith("Usage:"):
        return str(message)
    advice = f"; see {error.ctx.command_path} --help" if error.ctx is not None else ""
    return printable(f"acker: {message[:1].lower()}{message[1:]}{advice}")


cli = typer.Typer(name="acker", cls=Commands, no_args_is_help=True, add_completion=False, rich_markup_mode=None)
keys = typer.Typer(no_args_is_help=True, help="Make keys.")
cli.add_typer(keys, name="key")


def _print_version(*, asked: bool) -> None:
    if asked:
        typer.echo(VERSION)
        raise typer.Exit


@cli.callback()
def acker(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Tell the sender of a message when everything that grew out of it is done."""


@keys.callback()
def key() -> None:
    """Make keys."""


def _option(name: str, field: FieldInfo) -> inspect.Parameter:
    """Make the option of a setting; without it the setting comes from the environment, or is its default.

    It takes any text: `Settings` checks it, with one kind of error for options and variables.
    """
    types = (field.annotation, *get_args(field.annotation))
    kind: Any = bool if bool in types else str
    metavar = {int: "NUMBER", float: "NUMBER", Path: "PATH"}.get(
        next((t for t in types if t in (int, float, Path)), str)
    )
    option = typer.Option(
        option_of(name, field),
        help=_with_default(field),
        show_default=False,
        metavar=None if kind is bool else metavar or "TEXT",
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )


def _with_default(field: FieldInfo) -> str:
    """Return the description of a setting with its default, unless it ends with a note in brackets that says it."""
    description = field.description or ""
    if description.endswith("]"):
        return description
    return f"{description} [{str(field.default).lower() if isinstance(field.default, bool) else field.default}]"


def _with_an_option_for_each_setting(command: Callable[..., None]) -> Callable[..., None]:
    options = [_option(name, field) for name, field in Settings.model_fields.items()]
    own = [value for value in inspect.signature(command).parameters.values() if value.kind is value.KEYWORD_ONLY]
    options = [*own, *options]
    command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    command.__annotations__ = {option.name: option.annotation for option in options}
    return command


@cli.command()
@_with_an_option_for_each_setting
def serve(**options: Any) -> None:
    """Serve the acker. Every option can be set in the environment too: --data-dir is ACKER_DATA_DIR."""
    try:
        settings = _checked_settings(options)
        process = "supervisor" if settings.processes > 1 else None
        start_logging(level=settings.log_level, style=settings.log_format, process=process)
        log_service_links()
        _serve(settings)
    except (RuntimeError, ValueError) as error:
        _fail(*str(error).splitlines(), code=2)


@cli.command()
@_with_an_option_for_each_setting
def config(
    *, check: Annotated[bool, typer.Option("--check", help="Print only what is wrong.")] = False, **options: Any
) -> None:
    """Judge the settings of serve without starting it, and print those in force; exit 2 if they cannot be used."""
    try:
        settings = _checked_settings(options)
    except (RuntimeError, ValueError) as error:
        _fail(*str(error).splitlines(), code=2)
    shown = {} if check else settings.public()
    for name, given in shown.items():
        typer.echo(printable(f"{name}={_shown(given['value'])}  # {given['source']}"))


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def _checked_settings(options: Mapping[str, Any]) -> Settings:
    """Read the settings from options and environment. Raises ``ValueError`` with all that is wrong."""
    settings = read_settings(**options)
    _check_keys(settings)
    _check_certificate(settings)
    _check_store_options(settings)
    return settings


def _check_keys(settings: Settings) -> None:
    """Check that the keys can be read. Raises ``ValueError``."""
    try:
        configured_keys(settings.keys_file)
    except ValueError as error:
        raise ValueError(f"{setting('keys_file')}: {error}; docs/access.md shows such a file") from None


def _check_certificate(settings: Settings) -> None:
    """Check that the certificate and its key can be used. Raises ``ValueError``."""
    if settings.tls_cert is None or settings.tls_key is None:
        return
    from acker_service.http.certificate import read_context  # noqa: PLC0415 - only TLS needs it

    try:
        read_context(settings.tls_cert, settings.tls_key)
    except ValueError as error:
        raise ValueError(f"{setting('tls_cert')}, {setting('tls_key')}: {error}") from None


def _check_store_options(settings: Settings) -> None:
    """Check the options in the store's address. Raises ``ValueError``."""
    if settings.redis_url is None or "?" not in settings.redis_url:
        return
    from acker_service.redis.discovery import make_discovery  # noqa: PLC0415 - the driver takes half a second to import

    try:
        make_discovery(settings.redis_url)
    except ValueError as error:
        raise ValueError(f"{setting('redis_url')}: {error}") from None


def _serve(settings: Settings) -> None:
    """Serve until a signal. Importing the server takes a second, which errors and the other commands are spared."""
    with claim(settings) as sockets:
        _log.info("%s", start_line(settings, sockets))
        if settings.processes > 1:
            from acker_service.processes.supervisor import supervise as serve_forever  # noqa: PLC0415
        else:
            from acker_service.server import serve as serve_forever  # noqa: PLC0415

        with contextlib.suppress(asyncio.CancelledError):  # a signal came before the server handled signals
            uvloop.run(serve_forever(settings, sockets))


@cli.command()
def bench(
    url: Annotated[str, typer.Option(help="The address of the Redis, as for serve --redis-url.")],
    *,
    roots: Annotated[int, typer.Option(help="Roots to emit.", min=1_000, max=10_000_000)] = 100_000,
    roots_per_s: Annotated[float | None, typer.Option(help="Say what so many roots a second need.", min=1)] = None,
    edges: Annotated[int, typer.Option(help="How many edges each of these roots has.", min=1)] = 10,
    pending_s: Annotated[float, typer.Option(help="For how many seconds each of them is pending.", min=0)] = 30.0,
    batch: Annotated[int, typer.Option(help="How many operations come in a request.", min=1)] = 1_000,
    window_s: Annotated[float, typer.Option(help="The dedupe window of their topology; 0: none.", min=0)] = 30.0,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before writing to a Redis that has keys.")] = False,
) -> None:
    """Measure a Redis, and say what load it carries. Writes to a topology of its own and deletes it at the end."""
    from acker_service.sizing import benchmark  # noqa: PLC0415 - the driver takes half a second to import
    from acker_service.sizing.capacity import Workload  # noqa: PLC0415 - nothing else needs it

    # What the service would log and try again is an error of this command.
    logging.getLogger("acker_service").setLevel(logging.CRITICAL)
    try:
        shown = without_login(url)
    except ValueError as error:
        _fail(f"--url: {error}", code=2)
    try:
        if (keys_there := asyncio.run(benchmark.stored_keys(url))) and not yes:
            typer.confirm(f"This Redis has {keys_there:,} keys. Measure it all the same?", abort=True, err=True)
        with typer.progressbar(length=benchmark.batches(roots), label="Measuring", file=sys.stderr) as bar:
            measured = uvloop.run(benchmark.measure(url, roots=roots, step=lambda: bar.update(1)))
    except (AckerError, ValueError) as error:
        _fail(f"{shown}: {_ADDRESS.sub('…', str(error))}", code=1)
    load = None
    if roots_per_s:
        load = Workload(roots_per_s=roots_per_s, edges=edges, pending_s=pending_s, window_s=window_s, batch=batch)
    for line in benchmark.report(measured, [load] if load else benchmark.SHOWN_LOADS):
        typer.echo(line)


@keys.command()
def make(
    name: Annotated[str, typer.Option(help="What the key is called in answers and logs.")],
    scope: Annotated[str, typer.Option(help="ack, spout or admin.")],
    topology: Annotated[list[str] | None, typer.Option(help="A topology it is for; repeat it for more [all]")] = None,
    requests_per_s: Annotated[float | None, typer.Option(help="Requests a second, at most [no limit]")] = None,
    operations_per_s: Annotated[float | None, typer.Option(help="Operations a second, at most [no limit]")] = None,
) -> None:
    """Make a key. Prints it, this once, and on the next line its entry for the file of keys, which holds a hash."""
    secret = KEY_PREFIX + secrets.token_urlsafe(32)
    given = {"requests": requests_per_s, "operations": operations_per_s}
    rate = {what: per_s for what, per_s in given.items() if per_s is not None}
    try:
        line = entry(name, secret, scope=scope, topologies=topology or [], rate=rate)
    except ValueError as error:
        _fail(str(error), code=2)
    typer.echo('The key, shown only now, and its entry for the "keys" of ACKER_KEYS_FILE:', err=True)
    typer.echo(secret)
    typer.echo(line)


@cli.command()
def version() -> None:
    """Print the version."""
    typer.echo(VERSION)


def _fail(*messages: str, code: int) -> NoReturn:
    """Print error messages, a line each, and exit."""
    for message in messages:
        typer.echo(printable(f"acker: {message}"), err=True)
    raise typer.Exit(code) from None


def main() -> None:
    """Run the command line."""
    cli()


if __name__ == "__main__":
    main()
