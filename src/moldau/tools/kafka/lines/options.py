"""Command lines as most of Kafka's tools take them (they use the Java library jopt-simple).

    --topic x   --topic=x   -topic x   -t x (where the tool has t)        no abbreviations
    an option with a value takes the next word, whatever it looks like; a value may be missing only where the
    usage shows it in brackets; words that are not options are kept, and most tools ignore them

A value is checked when it is asked for, as in Kafka, so that errors come in its order: an unknown option
first, then missing and contradictory options, then values.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from moldau.tools.kafka.problems import FAILED, CommandLineError, Ended

KAFKA_VERSION = "4.3.1"
"""The release whose tools these are measured against; --version prints it first, as Kafka's do."""
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")


class Long(int):
    """The kind of an option whose number has 64 bits, as a Long of Java's; `int` is one of 32."""


@dataclass(frozen=True)
class Option:
    """One option. `argument` names the value in the usage; "" makes it a flag."""

    name: str
    argument: str
    text: str
    kind: type = str
    required: bool = False
    default: str | int | None = None
    may_lack_value: bool = False
    aliases: tuple[str, ...] = ()


def flag(name: str, text: str) -> Option:
    """Declare an option without a value."""
    return Option(name, "", text)


COMMON = (
    flag("help", "Print this."),
    flag("version", "Print Kafka's version that this tool is like, and end."),
)


@dataclass(frozen=True)
class Given:
    """A command line, taken apart: the values of each option that was given, and the other words."""

    parser: Parser
    typed: Sequence[str]
    values: dict[str, list[str]]
    words: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    """The client settings of its files, once they were read: a pipe gives them only once."""

    def flag(self, name: str) -> bool:
        """Whether the option was given, with or without a value."""
        return name in self.values

    def texts(self, name: str) -> list[str]:
        """Return all values of an option that may be repeated."""
        return self.values.get(name, [])

    def text(self, name: str) -> str | None:
        """Return the one value, else the default. CommandLineError if there are several."""
        values = self.texts(name)
        if len(values) > 1:
            raise CommandLineError(
                f"Found multiple arguments for option {name}, but you asked for only one",
                f"Give --{name} once.",
            )
        if values:
            return values[0]
        default = self.parser.by_name[name].default
        return None if default is None else str(default)

    def text_or_none(self, name: str) -> str | None:
        """Return the value of an option that may lack it; None if it does, or is absent."""
        return self.text(name) if self.texts(name) else None

    def number(self, name: str) -> int | None:
        """Return the one value as a whole number. CommandLineError if it is none."""
        text = self.text(name)
        if text is None:
            return None
        limit = 2**63 if self.parser.by_name[name].kind is Long else 2**31
        if _WHOLE.fullmatch(text) and -limit <= (number := int(text)) < limit:
            return number
        raise CommandLineError(
            f"Cannot parse argument '{text}' of option {name}",
            f"--{name} takes a whole number from {-limit} to {limit - 1}.",
        )


def _is_option(word: str, before: Option) -> bool:
    """Whether the word behind an option that may lack its value is another one: -1 is none, where a number is
    expected."""
    return word.startswith("-") and not (before.kind in (int, Long) and _WHOLE.fullmatch(word))


class Parser:
    """The options of one tool."""

    def __init__(self, tool: str, purpose: str, options: Iterable[Option]) -> None:
        self.tool = tool
        self.purpose = purpose
        self.options = (*options, *COMMON)
        self.by_name = {name: each for each in self.options for name in (each.name, *each.aliases)}

    def parse(self, words: Sequence[str], *, needs_words: bool = True) -> Given:
        """Take a command line apart. Raises Ended for --help, --version and (if `needs_words`) an empty line,
        CommandLineError for an unknown or missing option.
        """
        given = self._split(words)
        if given.flag("help") or (needs_words and not words):
            raise Ended(self.usage(), FAILED, on_stdout=False)
        if given.flag("version"):
            raise Ended(KAFKA_VERSION, 0, on_stdout=True)
        return given

    def require_all(self, given: Given) -> None:
        """Raise CommandLineError unless every option that is declared `required` is there."""
        self.require(given, *(each.name for each in self.options if each.required))

    def require(self, given: Given, *names: str) -> None:
        """Raise CommandLineError unless all of these options are there."""
        for name in names:
            if not given.flag(name):
                option = self.by_name[name]
                place = f"--{name} {name.upper()}" if option.argument else f"--{name}"
                raise CommandLineError(
                    f'Missing required argument "[{name}]"', self.line([*given.typed, *place.split()])
                )

    def exclude(self, given: Given, name: str, *others: str) -> None:
        """Raise CommandLineError if `name` is given together with one of `others`."""
        for other in others:
            if given.flag(name) and given.flag(other):
                raise CommandLineError(
                    f'Option "[{name}]" can\'t be used with option "[{other}]"',
                    f"Leave out --{name} or --{other}.",
                )

    def line(self, words: Sequence[str]) -> str:
        """Return a whole command line to type."""
        return f"Type: {self.tool} {shlex.join(words)}"

    def usage(self) -> str:
        """Return the help."""
        from moldau.tools.kafka.lines.usage import usage

        return usage(self)

    def _split(self, words: Sequence[str]) -> Given:
        values: dict[str, list[str]] = {}
        others: list[str] = []
        at = 0
        while at < len(words):
            word = words[at]
            at += 1
            if word == "--":
                others += words[at:]
                break
            if not word.startswith("-") or word == "-":
                others.append(word)
                continue
            option, equals, value = self._named(word, words, at - 1)
            found = values.setdefault(option.name, [])
            if not option.argument:
                if equals and value.lower() != "true":  # Kafka takes --execute=false for --execute
                    raise CommandLineError(
                        f"Option {option.name} takes no value, and not {value!r}",
                        f"Give --{option.name}, or leave it out.",
                    )
                continue
            if equals:
                found.append(value)
            elif at < len(words) and not (option.may_lack_value and _is_option(words[at], option)):
                found.append(words[at])
                at += 1
            elif not option.may_lack_value:
                raise CommandLineError(
                    f"Option {option.name} requires an argument",
                    self.line([*words[:at], option.name.upper(), *words[at:]]),
                )
        return Given(self, words, values, others)

    def _named(self, word: str, words: Sequence[str], index: int) -> tuple[Option, str, str]:
        name, equals, value = word.lstrip("-").partition("=")
        option = self.by_name.get(name)
        if option is None:
            from moldau.tools.kafka.lines.usage import nearest

            likely = nearest(name, self.by_name)
            hint = f"All options: {self.tool} --help"
            if likely:
                corrected = [*words[:index], f"--{likely}{equals}{value}", *words[index + 1 :]]
                hint = f"The nearest is --{likely}. {self.line(corrected)}"
            raise CommandLineError(f"{name} is not a recognized option", hint)
        return option, equals, value
