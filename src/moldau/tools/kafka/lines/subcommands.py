"""Command lines of Kafka's newer tools (they use argparse4j), with Python's argparse: same shape, same words.

    usage: kafka-transactions.sh [-h] [-v] ...
    kafka-transactions.sh: error: too few arguments

An error ends with 1, as Kafka's do (argparse would say 2). Not here: the line breaks of the usage, which are
argparse's.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any, NoReturn

from moldau.tools.kafka.lines.options import KAFKA_VERSION
from moldau.tools.kafka.lines.usage import nearest
from moldau.tools.kafka.problems import CommandLineError, Ended

_UNRECOGNIZED = re.compile(r"unrecognized arguments: (\S+).*")
_CHOICE = re.compile(r"argument .*: invalid choice: '([^']*)' \(choose from (.*)\)")
_NOTHING = re.compile(r"the following arguments are required: (.*)")


class Subcommands(argparse.ArgumentParser):
    """A parser whose `parse_args` raises Ended and CommandLineError. `prog` is the tool's name with `.sh`."""

    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, **{"allow_abbrev": False, **options})

    def add_version(self) -> None:
        """Add -v and --version."""
        self.add_argument(
            "-v", "--version", action=_Version, help="print Kafka's version that this tool is like"
        )

    def print_help(self, file: Any = None) -> NoReturn:
        """End with the help, on standard output."""
        raise Ended(self.format_help().rstrip("\n"), 0, on_stdout=True)

    def error(self, message: str) -> NoReturn:
        """End with the usage and the error."""
        hint = ""
        if found := _UNRECOGNIZED.fullmatch(message):
            word = found[1]
            known = [each for action in self._actions for each in action.option_strings]
            likely = nearest(word, [*known, *self._deeper()])
            hint = f"The nearest is {likely}." if likely else ""
            message = f"unrecognized arguments: '{word}'"
        elif found := _CHOICE.fullmatch(message):
            likely = nearest(found[1], re.findall(r"'([^']*)'|([\w-]+)", found[2]) and _words(found[2]))
            message = f"invalid choice: '{found[1]}' (choose from {_listed(found[2])})"
            hint = f"Did you mean: {likely}" if likely else ""
        elif found := _NOTHING.fullmatch(message):
            missing = found[1].split(", ")
            message = (
                "too few arguments"
                if missing[-1] in ("command", "COMMAND")
                else f"argument {missing[0]} is required"
            )
        raise CommandLineError(
            f"{self.format_usage().rstrip()}\n{self.prog.split()[0]}: error: {message}", hint
        )

    def _deeper(self) -> list[str]:
        found = []
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for parser in action.choices.values():
                    found += [each for one in parser._actions for each in one.option_strings]
        return found


def whole(bits: int) -> Callable[[str], int]:
    """Return what makes a whole number of so many bits of a word, for `type=`."""
    kind = {16: "Short", 32: "Integer", 64: "Long"}[bits]

    def convert(text: str) -> int:
        limit = 2 ** (bits - 1)
        if re.fullmatch("[+-]?[0-9]{1,19}", text) and -limit <= int(text) < limit:
            return int(text)
        raise argparse.ArgumentTypeError(f"could not convert '{text}' to {kind} ({bits} bit)")

    return convert


def _words(listed: str) -> list[str]:
    return [each.strip(" '") for each in listed.split(",")]


def _listed(listed: str) -> str:
    return ", ".join(f"'{each}'" for each in _words(listed))


class _Version(argparse.Action):
    def __init__(self, option_strings: Any, dest: Any, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, **options)

    def __call__(self, *_: Any) -> NoReturn:
        raise Ended(KAFKA_VERSION, 0, on_stdout=True)
