"""Knows the command line for keys: ``acker key``."""

import secrets
from typing import Annotated

import typer

from acker_service.http.keys_file import entry

PREFIX = "acker_"
"""Begins every key, so that one that leaked is recognised."""

cli = typer.Typer(no_args_is_help=True, help="Make keys.")


@cli.callback()
def key() -> None:
    """Make keys."""


@cli.command()
def make(
    name: Annotated[str, typer.Option(help="What the key is called in answers and logs.")],
    scope: Annotated[str, typer.Option(help="ack, spout or admin.")],
    topology: Annotated[list[str] | None, typer.Option(help="A topology it is for; repeat it for more [all]")] = None,
) -> None:
    """Make a key. Prints it, this once, and on the next line its entry for the file of keys, which holds a hash."""
    secret = PREFIX + secrets.token_urlsafe(32)
    try:
        line = entry(name, secret, scope=scope, topologies=topology or [])
    except ValueError as fault:
        typer.echo(f"acker: {fault}", err=True)
        raise typer.Exit(2) from None
    typer.echo('The key, shown only now, and its entry for the "keys" of ACKER_KEYS_FILE:', err=True)
    typer.echo(secret)
    typer.echo(line)
