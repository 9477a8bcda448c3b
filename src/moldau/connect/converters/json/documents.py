"""Payloads -> JSON values, and which payloads are no JSON.

orjson reads them; those with long numbers (which it would make floats), or which it refuses, are read again
by the standard library, with Jackson's bounds: 1,000 levels, 1,000 digits.
"""

from __future__ import annotations

import json
import secrets
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.structs import true_rows

REFUSED = "Converting byte[] to Kafka Connect data failed due to serialization error: "
_LONG_NUMBER = "[0-9]{19}"
_TOGETHER_MIN = 4
_BOM = b"\xef\xbb\xbf"


class NoJson(ValueError):
    """Bytes are no JSON; the message says why."""


def parsed(payloads: pa.Array) -> tuple[list[Any], dict[int, str]]:
    """The JSON value of each payload (null: None), and reasons of those that are none by row."""
    together = _parsed_together(payloads)
    if together is not None:
        return together, {}
    values: list[Any] = []
    bad: dict[int, str] = {}
    loads = orjson.loads
    for row, payload in enumerate(payloads.to_pylist()):
        try:
            values.append(None if payload is None else loads(payload))
        except orjson.JSONDecodeError:
            try:
                values.append(parsed_exactly(payload))
            except NoJson as error:
                values.append(None)
                bad[row] = f"{REFUSED}{error}"
    for row in true_rows(pc.match_substring_regex(payloads, _LONG_NUMBER)):
        if row not in bad:
            try:
                values[row] = parsed_exactly(payloads[row].as_py())
            except NoJson as error:
                values[row] = None
                bad[row] = f"{REFUSED}{error}"
    return values, bad


def _parsed_together(payloads: pa.Array) -> list[Any] | None:
    """The values, read as one array with a secret number between two of them; None: each has to be read by
    itself. What is no JSON by itself (`[1` before `2]`) takes in the number, or is more values than one."""
    count = len(payloads)
    if count < _TOGETHER_MIN:
        return None
    secret = secrets.randbelow(10**15)
    given = pc.fill_null(payloads, b"null") if payloads.null_count else payloads
    rows = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), given)
    joined = pc.binary_join(rows, f",{secret},".encode())
    if pc.match_substring_regex(joined, _LONG_NUMBER)[0].as_py():
        return None
    try:
        found: list[Any] = orjson.loads(b"".join((b"[", joined[0].as_buffer(), b"]")))
    except orjson.JSONDecodeError:
        return None
    if len(found) != 2 * count - 1 or found[1::2].count(secret) != count - 1:
        return None
    return found[::2]


def parsed_exactly(payload: bytes, decimals: bool = False) -> Any:
    """One payload's value, whole numbers with all digits; `decimals`: others as Decimal. NoJson."""
    if not payload.removeprefix(_BOM).strip(b" \t\r\n"):
        return None
    try:
        text = payload.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NoJson(f"it is no UTF-8: {error.reason} at byte {error.start}") from None
    try:
        value = json.loads(
            text,
            parse_constant=_refuse,
            parse_int=_whole,
            parse_float=Decimal if decimals else None,
        )
        _require_text(value, text)
    except RecursionError:
        raise NoJson("Document nesting depth exceeds the maximum allowed (1000)") from None
    except (ValueError, ArithmeticError) as error:
        raise NoJson(str(error)) from None
    return value


def _refuse(word: str) -> Any:
    raise NoJson(f"Non-standard token '{word}'")


def _whole(digits: str) -> int:
    if len(digits) > 1000:
        raise NoJson("Number value length exceeds the maximum allowed (1000)")
    return int(digits)


def _require_text(value: Any, text: str) -> None:
    """Halves of a surrogate pair, which only an escape can write, have no bytes."""
    if "\\ud" in text or "\\uD" in text:
        try:
            json.dumps(value, ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError:
            raise NoJson("it has half a pair of surrogates") from None
