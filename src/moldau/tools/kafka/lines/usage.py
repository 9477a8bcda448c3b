"""The help of a tool, in the two columns of Kafka's, and the option that was probably meant."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING

from moldau.tools.kafka.lines.options import Long

if TYPE_CHECKING:
    from moldau.tools.kafka.lines.options import Option, Parser

_LEFT, _RIGHT = 40, 40
_KINDS = {int: "Integer", Long: "Long", float: "Double"}


def usage(parser: Parser) -> str:
    """Return the help of a tool: a sentence, and its options in the order of the alphabet."""
    rows = [("Option", "Description"), ("------", "-----------")]
    rows += [(_left(each), _right(each)) for each in sorted(parser.options, key=lambda one: one.name)]
    lines = [parser.purpose]
    for left, right in rows:
        lefts = textwrap.wrap(left, _LEFT, subsequent_indent="  ")
        rights = textwrap.wrap(right, _RIGHT, subsequent_indent="  ") or [""]
        for index in range(max(len(lefts), len(rights))):
            one = lefts[index] if index < len(lefts) else ""
            other = rights[index] if index < len(rights) else ""
            lines.append(f"{one:<{_LEFT}} {other}".rstrip())
    return "\n".join(lines)


def _left(option: Option) -> str:
    names = ", ".join(
        f"-{each}" if len(each) == 1 else f"--{each}" for each in (*option.aliases, option.name)
    )
    if not option.argument:
        return names
    opening, closing = "[]" if option.may_lack_value else "<>"
    return f"{names} {opening}{_KINDS.get(option.kind, 'String')}: {option.argument}{closing}"


def _right(option: Option) -> str:
    default = "" if option.default is None else f" (default: {option.default})"
    return f"{'REQUIRED: ' if option.required else ''}{option.text}{default}"


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the option that is most like `name`; "" if none is."""
    names = sorted(known)
    begun = [each for each in names if name and each.startswith(name)]
    found = begun if len(begun) == 1 else difflib.get_close_matches(name, names, 1, 0.6)
    return found[0] if found else ""
