"""Numbers and texts as Java prints them: what Kafka's JSON and StringConverter write.

1.0E7  9.9E-4  0.001  9999999.0     doubles: scientific outside of [10^-3, 10^7), as few digits as it takes
1E-7   1.2E+3                       decimals: as Python's
"\\u001F"  "\\uD83D\\uDE00"            JSON: capital hex; pairs of surrogates for what is beyond U+FFFF
"""

from __future__ import annotations

import base64
import datetime
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.arrow_types import logical_name
from moldau.connect.batch import Column
from moldau.connect.schema import Schema, Type
from moldau.connect.values import python_values

_ESCAPES = {code: f"\\u{code:04X}" for code in range(0x20)} | {
    0x08: "\\b",
    0x09: "\\t",
    0x0A: "\\n",
    0x0C: "\\f",
    0x0D: "\\r",
    0x22: '\\"',
    0x5C: "\\\\",
}
_UNUSUAL = '["\\\\\\x00-\\x1f]|[\\x{10000}-\\x{10FFFF}]'
_PLAIN_MIN, _PLAIN_MAX = 1e-3, 1e7


def double_text(value: float) -> str:
    """Double.toString (of JDK 19 and newer, which are the shortest)."""
    return _number_text(value, repr(value), lambda text: float(text) == value)


def float_text(value: float) -> str:
    """Float.toString of a value that is a float32."""
    single = np.float32(value)
    return _number_text(float(single), str(single), lambda text: bool(np.float32(text) == single))


def _number_text(value: float, shortest: str, is_same: Any) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    size = abs(value)
    mantissa, _, exponent = shortest.partition("e")
    sign, mantissa = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0").rstrip("0")
    if not digits:
        return f"{sign}0.0"
    leading = len(whole + fraction) - len((whole + fraction).lstrip("0"))
    power = int(exponent or 0) + len(whole) - 1 - leading
    if len(digits) == 1:  # of two digits, those that are nearest
        two = f"{size:.1e}"
        digits = (two[0] + two[2]).rstrip("0") if is_same(sign + two) else digits
        power = int(two.partition("e")[2]) if is_same(sign + two) else power
    if _PLAIN_MIN <= size < _PLAIN_MAX:
        if power < 0:
            return f"{sign}0.{'0' * (-power - 1)}{digits}"
        padded = digits.ljust(power + 1, "0")
        return f"{sign}{padded[: power + 1]}.{padded[power + 1 :] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"


def number_texts(array: pa.Array, quote: str = '"') -> pa.Array:
    """The texts of a column of floats; what is no number is put in quotes, as in JSON."""
    single = pa.types.is_float32(array.type)
    size = pc.abs(array)
    plain = pc.or_(pc.and_(pc.greater_equal(size, _PLAIN_MIN), pc.less(size, _PLAIN_MAX)), pc.equal(size, 0))
    texts = pc.cast(array, pa.string())
    whole = pc.invert(pc.match_substring(texts, "."))
    texts = pc.if_else(whole, pc.binary_join_element_wise(texts, ".0", ""), texts)
    plain = pc.and_(pc.fill_null(plain, True), pc.invert(pc.match_substring(pc.fill_null(texts, ""), "e")))
    if pc.all(plain, min_count=0).as_py():
        return texts
    made: list[str | None] = []
    text_of = float_text if single else double_text
    for value in array.filter(pc.invert(plain)).to_pylist():
        text = text_of(value)
        made.append(text if math.isfinite(value) else f"{quote}{text}{quote}")
    return pc.replace_with_mask(texts, pc.invert(plain), pa.array(made, pa.string()))


def json_text(value: str) -> str:
    """A text in JSON, with its quotes, as Jackson writes it."""
    made = value.translate(_ESCAPES)
    if not made.isascii() and any(sign > "\uffff" for sign in made):
        made = "".join(_pair(sign) if sign > "\uffff" else sign for sign in made)
    return f'"{made}"'


def _pair(sign: str) -> str:
    code = ord(sign) - 0x10000
    return f"\\u{0xD800 + (code >> 10):04X}\\u{0xDC00 + (code & 0x3FF):04X}"


def json_texts(array: pa.Array) -> pa.Array:
    """The same of a column of texts."""
    quoted = pc.binary_join_element_wise('"', array, '"', "")
    unusual = pc.fill_null(pc.match_substring_regex(array, _UNUSUAL), False)
    if not pc.any(unusual, min_count=0).as_py():
        return quoted
    made = [json_text(value) for value in array.filter(unusual).to_pylist()]
    return pc.replace_with_mask(quoted, unusual, pa.array(made, pa.string()))


def java_texts(column: Column) -> pa.Array:
    """What toString of each value gives; null where it is null."""
    schema, values = column.schema, column.values
    if schema is not None and not isinstance(values, list) and logical_name(schema) is None:
        if schema.type is Type.STRING:
            return values
        if schema.type in (Type.FLOAT32, Type.FLOAT64):
            return number_texts(values, quote="")
        if schema.type in (Type.BOOLEAN, Type.INT8, Type.INT16, Type.INT32, Type.INT64):
            return pc.cast(values, pa.string())
    made = [None if each is None else java_string(schema, each) for each in python_values(column)]
    return pa.array(made, pa.string())


def java_string(schema: Schema | None, value: Any) -> str:
    """toString of a value. Dates are in UTC; bytes, which Java shows no contents of, are Base64."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return float_text(value) if schema is not None and schema.type is Type.FLOAT32 else double_text(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, dict):
        return _map_string(schema, value)
    if isinstance(value, (list, tuple)):
        items = None if schema is None else schema.items
        return f"[{', '.join(java_string(items, each) for each in value)}]"
    if isinstance(value, (datetime.date, datetime.time)):
        return _date_string(value)
    return str(value)


def _map_string(schema: Schema | None, value: dict[Any, Any]) -> str:
    if schema is not None and schema.type is Type.STRUCT:
        fields = [(each.name, each.schema) for each in schema.fields if value.get(each.name) is not None]
        return f"Struct{{{','.join(f'{name}={java_string(kind, value[name])}' for name, kind in fields)}}}"
    keys, items = (None, None) if schema is None else (schema.keys, schema.items)
    return f"{{{', '.join(f'{java_string(keys, k)}={java_string(items, v)}' for k, v in value.items())}}}"


def _date_string(value: datetime.date | datetime.time) -> str:
    if isinstance(value, datetime.time):
        value = datetime.datetime.combine(datetime.date(1970, 1, 1), value)
    elif not isinstance(value, datetime.datetime):
        value = datetime.datetime.combine(value, datetime.time())
    return value.strftime("%a %b %d %H:%M:%S UTC %Y")
