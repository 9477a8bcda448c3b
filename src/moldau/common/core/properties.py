"""The syntax of Java property files (java.util.Properties), in which every Kafka user's server.properties is
written, a client's settings and what a log directory says of itself.

    key=value   key: value   key value      # comment   ! comment
    a line that ends in \\ goes on in the next
    \\t \\n \\r \\f \\uXXXX are escapes; any other escaped character stands for itself, in keys too

Lines end in \\n, \\r or both, and in nothing else that Unicode calls a line's end. A later line wins over an
earlier one of the same key. A backslash alone begins no line: what follows may be blank or a comment
(measured with Java 17).
"""

import re

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_FOUR_DIGITS = re.compile(r"[0-9a-fA-F]{4}")
_SURROGATE = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def parse_properties(content: str) -> dict[str, str]:
    """The pairs of a property file, in order; ValueError (with the line) on a broken \\u escape."""
    pairs: dict[str, str] = {}
    for number, line in _logical_lines(content):
        key, value = _split(line)
        try:
            pairs[_unescape(key)] = _unescape(value)
        except ValueError:
            raise ValueError(f"line {number}: a \\u escape needs four hexadecimal digits: {line}") from None
    return pairs


def _logical_lines(content: str) -> list[tuple[int, str]]:
    lines: list[tuple[int, str]] = []
    pending, first = "", 0
    for number, raw in enumerate(_LINE_END.split(content), start=1):
        line = raw.lstrip(_BLANKS)
        if not pending:
            if not line or line[0] in "#!":
                continue
            first = number
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2 == 1:
            pending += line[:-1]
            continue
        lines.append((first, pending + line))
        pending = ""
    if pending:
        lines.append((first, pending))
    return lines


def _split(line: str) -> tuple[str, str]:
    end = 0
    while end < len(line) and line[end] not in _BLANKS + "=:":
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return line[:end], rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\" or position == len(text):
            out.append(character)
            continue
        escaped = text[position]
        position += 1
        if escaped == "u":
            digits = _FOUR_DIGITS.match(text, position)
            if digits is None:
                raise ValueError("no escape")
            out.append(chr(int(digits[0], 16)))
            position += 4
        else:
            out.append(_ESCAPES.get(escaped, escaped))
    return _SURROGATE.sub(_one_character, "".join(out))


def _one_character(pair: re.Match[str]) -> str:
    """What two escapes of UTF-16 stand for together."""
    return pair[0].encode("utf-16", "surrogatepass").decode("utf-16")
