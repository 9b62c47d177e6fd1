"""Commands with verbs, as ``acker root list``, and what a help says of commands."""

import sys
from collections.abc import Callable, Mapping, Sequence

from acker_client._cli.parsing import print_text, usage_error

Command = Callable[[Sequence[str]], int | None]
"""Takes the arguments behind its name, and returns an exit code, or None for 0."""

HELP = """\
Usage: acker {noun} [OPTIONS] COMMAND [ARGS]...

  {sentence}

Options:
  --help  Show this message and exit.

Commands:
{verbs}"""


class Noun:
    """A command whose first argument is a verb.

    ``usual`` is the verb that is meant where none stands: before there were verbs, the command did that.
    """

    def __init__(self, noun: str, sentence: str, *, usual: str, verbs: Mapping[str, Command]) -> None:
        self.__doc__ = sentence
        self.verbs = verbs
        self._noun = noun
        self._usual = usual

    def __call__(self, arguments: Sequence[str]) -> int:
        """Run the verb; return its exit code."""
        match arguments:
            case ["--help", *_]:
                print_text(self._help())
                return 0
            case [verb, *rest] if verb in self.verbs:
                return self.verbs[verb](rest) or 0
            case []:
                print_text(self._help(), file=sys.stderr)
                return 2
        return usage_error(
            f"no such command 'acker {self._noun} {arguments[0]}', did you mean 'acker {self._noun} "
            f"{self._meant(arguments)}'? see acker {self._noun} --help"
        )

    def _help(self) -> str:
        verbs = "\n".join(command_lines(self.verbs))
        return HELP.format(noun=self._noun, sentence=self.__doc__, verbs=verbs)

    def _meant(self, arguments: Sequence[str]) -> str:
        """Return the verb that stands elsewhere, else the one that is spelt nearly so, else the usual one."""
        from difflib import get_close_matches  # noqa: PLC0415 - few need it

        elsewhere = [argument for argument in arguments if argument in self.verbs]
        return [*elsewhere, *get_close_matches(arguments[0], self.verbs, n=1), self._usual][0]


def command_lines(commands: Mapping[str, Command], *, width: int = 0) -> list[str]:
    """Describe commands, a line each, by the first sentences of their docstrings; names have ``width`` at least."""
    width = max([width, *map(len, commands)])
    return [f"  {name:{width}}  {_summary(command)}" for name, command in commands.items()]


def _summary(command: Command) -> str:
    first, _, _ = (command.__doc__ or "").strip().partition("\n")
    return first.partition(". ")[0].rstrip(".") + "."
