"""JSON of schemas, read and written as Confluent's registry does: the order of members and the spelling of
numbers are part of a canonical text.

Reading refuses what a registry must not store or look into: texts over a limit, nesting over a limit, numbers
that JSON does not have (NaN), text that UTF-8 cannot carry (half a surrogate pair). All errors are
InvalidSchema.

Writing follows Jackson: no spaces, non-ASCII characters as they are, control characters as \\u001F, a double
as Java prints it (1.0E10), a decimal as BigDecimal does (1E+10).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any

from moldau.common.core.json_steps import has_more_values, load_in_steps
from moldau.schemas.schema import InvalidSchema

TEXT_CHARACTERS_MAX = 2 * 1024 * 1024
"""A record of `_schemas` has 1 MB by default; longer texts are refused before they are looked at."""
NESTING_MAX = 240
"""Objects and arrays in one another. A record in a record is four of them."""

VALUES_MAX = 200_000
"""Elements and members. A schema of 1 MB has fewer, unless it was made to cost time."""

_STEPPED_CHARACTERS_MIN = 32 * 1024
_NOT_ENCODABLE = re.compile("[\ud800-\udfff]")
_COMMENT = re.compile(r'"[^"\\]*+(?:\\(?:.|\Z)[^"\\]*+)*+(?:"|\Z)|/\*.*?(?:\*/|\Z)|//[^\n]*', re.DOTALL)
"""Strings too, in which there are no comments. What does not end, ends with the text: else each start
would be tried to the end, and a text of nothing but starts would take the square of its length."""
_LOWER_ESCAPE = re.compile(r"\\u00[01][0-9a-f]")


def read(text: str, *, number: Callable[[str], Any] = float, comments: bool = False) -> Any:
    """What the text says; numbers with a point or an exponent become `number(spelling)`.

    `comments`: as Avro's own parser, passes over /* */ and // where the text is no JSON otherwise.
    """
    if len(text) > TEXT_CHARACTERS_MAX:
        raise InvalidSchema(
            f"the schema has {len(text)} characters, and schemas have {TEXT_CHARACTERS_MAX} at most"
        )
    _check_values(text)
    try:
        value = _loads(text, number)
    except json.JSONDecodeError as error:
        if not comments or "/" not in text:
            raise InvalidSchema(f"the text is not JSON: {error}") from None
        without = _COMMENT.sub(_without_comment, text)
        _check_values(without)  # a quotation mark in a comment hid what is behind it
        try:
            value = _loads(without, number)
        except json.JSONDecodeError:
            raise InvalidSchema(f"the text is not JSON: {error}") from None
    if text.count("{") + text.count("[") > NESTING_MAX:
        _check_nesting(value)
    if "\\u" in text.replace("\\\\", "") and _NOT_ENCODABLE.search(write(value)):
        raise InvalidSchema("the text has half of a surrogate pair, which UTF-8 cannot carry")
    if _NOT_ENCODABLE.search(text):
        raise InvalidSchema("the text has half of a surrogate pair, which UTF-8 cannot carry")
    return value


def _check_values(text: str) -> None:
    if len(text) > VALUES_MAX and has_more_values(text.encode("utf-8", "surrogatepass"), VALUES_MAX):
        raise InvalidSchema(f"the schema has more than {VALUES_MAX} values (members, elements)")


def _loads(text: str, number: Callable[[str], Any]) -> Any:
    loads = load_in_steps if len(text) > _STEPPED_CHARACTERS_MIN else json.loads
    try:
        return loads(text, parse_float=number, parse_constant=_refuse_constant)
    except RecursionError:
        raise InvalidSchema(f"the text nests deeper than {NESTING_MAX}") from None
    except (json.JSONDecodeError, InvalidSchema):
        raise
    except ArithmeticError as error:
        raise InvalidSchema(f"the text has a number that is out of range: {error}") from None
    except ValueError:  # the interpreter's limit of digits
        raise InvalidSchema("the text has a number with thousands of digits") from None


def _refuse_constant(name: str) -> Any:
    raise InvalidSchema(f"the text is not JSON: it has the value {name}")


def _without_comment(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith('"') else " "


def _check_nesting(value: Any) -> None:
    level = [value]
    for _ in range(NESTING_MAX):
        level = [inner for each in level for inner in _members(each)]
        if not level:
            return
    if any(isinstance(each, (dict, list)) for each in level):
        raise InvalidSchema(f"the text nests deeper than {NESTING_MAX}")


def _members(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def write(value: Any) -> str:
    """The text of what `read` gave, or of values built from the same types."""
    pieces: list[str] = []
    _write(value, pieces.append)
    return "".join(pieces)


def _write(value: Any, add: Callable[[str], None]) -> None:
    if isinstance(value, str):
        add(quoted(value))
    elif value is None:
        add("null")
    elif value is True:
        add("true")
    elif value is False:
        add("false")
    elif isinstance(value, dict):
        separator = "{"
        for name, each in value.items():
            add(separator)
            add(quoted(name))
            add(":")
            _write(each, add)
            separator = ","
        add("}" if value else "{}")
    elif isinstance(value, list):
        separator = "["
        for each in value:
            add(separator)
            _write(each, add)
            separator = ","
        add("]" if value else "[]")
    elif isinstance(value, float):
        add(java_double(value))
    else:  # int, Decimal
        add(str(value))


def quoted(text: str) -> str:
    """A string with its quotes."""
    escaped = encode_basestring(text)
    return _LOWER_ESCAPE.sub(_upper, escaped) if "\\u00" in escaped else escaped


def _upper(found: re.Match[str]) -> str:
    return f"\\u{found[0][2:].upper()}"


def java_double(value: float) -> str:
    """As Java's Double.toString: 1.0, 1.0E10, 1.5E-7."""
    if value in (float("inf"), float("-inf")):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    prefix = "-" if sign else ""
    text = "".join(map(str, digits)).rstrip("0")
    if not text:
        return f"{prefix}0.0"
    point = len(digits) + exponent
    """Digits before the decimal point."""
    if -2 <= point <= 7:
        whole = text[:point].ljust(point, "0") if point > 0 else "0"
        rest = text[point:] if point > 0 else "0" * -point + text
        return f"{prefix}{whole}.{rest or '0'}"
    return f"{prefix}{text[0]}.{text[1:] or '0'}E{point - 1}"


def same(left: Any, right: Any) -> bool:
    """Whether two values are the same JSON: 1 and 1.0 are, true and 1 are not."""
    return bool(frozen(left) == frozen(right))


def frozen(value: Any, known: dict[int, Any] | None = None) -> Any:
    """A hashable value that is equal for the same JSON (objects in any order).

    `known` remembers by identity the objects and arrays that were frozen before, for parts of parts.
    """
    if isinstance(value, (dict, list)):
        found = known.get(id(value)) if known is not None else None
        if found is None:
            if isinstance(value, dict):
                found = ("{}", frozenset((name, frozen(each, known)) for name, each in value.items()))
            else:
                found = ("[]", tuple(frozen(each, known) for each in value))
            if known is not None:
                known[id(value)] = found
        return found
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return ("n", value)
    return (type(value).__name__, value)
