r"""The syntax of `-f`: text with percent escapes that says how a record is written in a line.

`moldau consume` prints by it (render.py) and `moldau produce` reads by it (record_reader.py), so what one
writes the other can take. The letters are those that users of rpk and kcat know:

    %t topic   %k key   %v value   %p partition   %o offset   %d timestamp   %e leader epoch   %i count so far
    %T %K %V   the lengths of the topic, key and value      %H number of headers
    %h{ %k=%v}   one repetition a header, by a template of its own
    %a{timestamp-type}   0 set by the client, 1 by the broker
    %%  %{  %}   the characters themselves           \t \n \r \0 \\ \xNN

A modifier in braces changes the form: %v{hex}, %v{base64}, %v{json}, %K{big32}, %d{strftime[%F %T]}. What
is inside a bracket pair (or a run of #) may contain braces.

A template is a list of parts, either bytes or a Field; this module only parses.
"""

from __future__ import annotations

from dataclasses import dataclass

from moldau.tools.shared.errors import UsageError

FIELDS = "tTkKvVpodeiHha"
"""The letters that may follow a percent sign."""

_ESCAPES = {"t": b"\t", "n": b"\n", "r": b"\r", "0": b"\0", "\\": b"\\"}
_BRACKETS = {"[": "]", "(": ")", "<": ">"}


@dataclass(frozen=True, slots=True)
class Field:
    """One percent escape: its letter, its modifier ("" for none), and for %h the template of one header."""

    letter: str
    modifier: str = ""
    header: tuple[Part, ...] = ()


Part = bytes | Field


def parse_template(text: str) -> tuple[Part, ...]:
    """Parse a template. UsageError with the position."""
    parts: list[Part] = []
    literal = bytearray()
    position = 0
    while position < len(text):
        character = text[position]
        if character == "\\":
            piece, position = _escape(text, position)
            literal += piece
        elif character != "%":
            literal += character.encode()
            position += 1
        elif text[position + 1 : position + 2] in ("%", "{", "}"):
            literal += text[position + 1].encode()
            position += 2
        else:
            if literal:
                parts.append(bytes(literal))
                literal.clear()
            field, position = _field(text, position)
            parts.append(field)
    if literal:
        parts.append(bytes(literal))
    return tuple(parts)


def _escape(text: str, position: int) -> tuple[bytes, int]:
    following = text[position + 1 : position + 2]
    if following in _ESCAPES and following:
        return _ESCAPES[following], position + 2
    digits = text[position + 2 : position + 4]
    if following == "x" and len(digits) == 2:
        try:
            return bytes([int(digits, 16)]), position + 4
        except ValueError:
            pass
    raise UsageError(
        rf"the format has {text[position : position + 4]!r} at position {position}: "
        r"a backslash starts \t, \n, \r, \0, \\ or \xNN"
    )


def _field(text: str, position: int) -> tuple[Field, int]:
    letter = text[position + 1 : position + 2]
    if not letter or letter not in FIELDS:
        raise UsageError(
            f"the format has '%{letter}' at position {position}: known are "
            f"{' '.join('%' + known for known in FIELDS)} and %% for a percent sign"
        )
    position += 2
    modifier = ""
    if text[position : position + 1] == "{":
        end = _closing_brace(text, position)
        modifier = text[position + 1 : end]
        position = end + 1
    if letter != "h":
        return Field(letter, modifier), position
    header = parse_template(modifier)
    unfit = [part.letter for part in header if isinstance(part, Field) and part.letter not in "kKvV"]
    if not header or unfit:
        raise UsageError("%h needs a template of one header in braces, of %k and %v: for example %h{ %k=%v}")
    return Field("h", modifier, header), position


def _closing_brace(text: str, start: int) -> int:
    """Return the position of the brace that closes the one at `start`.

    Nested braces count, those within brackets or #...# do not.
    """
    depth = 0
    position = start
    while position < len(text):
        character = text[position]
        if character == "%" and text[position + 1 : position + 2] in ("{", "}", "%"):
            position += 2
            continue
        if character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                return position
        elif character in _BRACKETS or character == "#":
            closed = text.find(_BRACKETS.get(character, "#"), position + 1)
            if closed > 0 and "}" in text[closed:]:
                position = closed
        position += 1
    raise UsageError(f"the format opens a brace at position {start} and never closes it")


def bracketed(modifier: str, name: str) -> str | None:
    """Return the text between the brackets of `name[...]`; None for another modifier.

    The brackets may be [] () <> or a run of #; within ## ... ## the text may contain brackets.
    """
    rest = modifier[len(name) :]
    if not modifier.startswith(name) or not rest:
        return None
    if rest[0] == "#":
        fence = rest[: len(rest) - len(rest.lstrip("#"))]
        if len(rest) >= 2 * len(fence) and rest.endswith(fence):
            return rest[len(fence) : -len(fence)]
        return None
    closing = _BRACKETS.get(rest[0])
    return rest[1:-1] if closing and rest.endswith(closing) and len(rest) > 1 else None
