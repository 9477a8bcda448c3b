"""The response that a broker gives when it refuses a request with one error code, for any API.

Kafka's responses repeat the request's rows (topics, partitions, keys) with an error code in each. So the
response is made from its declaration: rows by rows, names and numbers taken from the request's rows.

    Produce    topic_data[name, partition_data[index]]
               responses[name, partition_responses[index, error_code]]
"""

from __future__ import annotations

import sys
from typing import Any

from moldau.common.protocol.declare import Struct
from moldau.common.protocol.schema import Column, columns

_ROWS_ONLY = frozenset({1, 3})
"""Fetch and Metadata: their top-level error means something else (a session, rebootstrapping)."""
_NOT_KNOWN = frozenset(("base_offset", "committed_offset", "high_watermark", "node_id", "port"))
_SAME = ("partition_index", "partition", "index")
_TEXTS = ("name", "topic", "key")


def refusal(request: Any, version: int, error_code: int) -> Any:
    """The response message to `request` in this version, every row of it with the error. ValueError: the API
    has no error."""
    response = type(request).RESPONSE()
    skip_own = type(request).KEY in _ROWS_ONLY
    refused = _fill(response, request, version, error_code, skip_own=skip_own)
    if not refused:
        raise ValueError(f"{type(request).__name__} has no response that could tell an error")
    return response


def _fill(target: Any, source: Any, version: int, error_code: int, *, skip_own: bool = False) -> bool:
    """Fill a message or row from its counterpart; whether an error code was set."""
    refused = False
    source_lists = [name for name in _lists(source, version) if "forgotten" not in name]
    own_lists = _lists(target, version)
    for column in _columns(target):
        name = column.name
        if not column.present(version):
            continue
        if name.endswith("error_code"):
            if not skip_own:
                setattr(target, name, error_code)
                refused = True
        elif name in own_lists:
            row_type = _row_type(type(target), name)
            if row_type is None or not _tells_errors(row_type):
                continue
            same = name if name in source_lists else next(iter(source_lists), None)
            rows = (getattr(source, same) or []) if same is not None else []
            if same is not None and same != name:
                source_lists.remove(same)
            made = [_row(row_type, row, version, error_code) for row in rows]
            setattr(target, name, made)
            refused = refused or bool(made)
        elif name in _NOT_KNOWN:
            setattr(target, name, -1)
        elif name in _SAME:
            number = next((getattr(source, each) for each in _SAME if hasattr(source, each)), None)
            if number is not None:
                setattr(target, name, number)
        elif hasattr(source, name) and name != "throttle_time_ms":
            setattr(target, name, getattr(source, name))
    return refused


def _row(row_type: type[Any], source: Any, version: int, error_code: int) -> Any:
    row = row_type()
    if isinstance(source, int):  # partitions as bare numbers
        source = _Bare(dict.fromkeys(_SAME, source))
    elif isinstance(source, str):  # keys or names as bare texts
        source = _Bare(dict.fromkeys(_TEXTS, source))
    _fill(row, source, version, error_code)
    return row


class _Bare:
    """A row that was a number or a text, under the names that it may have in the response."""

    def __init__(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            setattr(self, name, value)


def _columns(row: Any) -> tuple[Column, ...]:
    found: type[Struct] = type(row)
    return columns(found)


def _lists(row: Any, version: int) -> list[str]:
    if isinstance(row, _Bare):
        return []
    present = [each.name for each in _columns(row) if each.present(version)]
    return [name for name in present if row.FIELDS[name][0].startswith("list[")]


def _row_type(owner: type[Any], name: str) -> type[Any] | None:
    inner = owner.FIELDS[name][0].removeprefix("list[").partition("]")[0]
    found = getattr(sys.modules[owner.__module__], inner, None)
    return found if isinstance(found, type) and hasattr(found, "FIELDS") else None


def _tells_errors(row_type: type[Any]) -> bool:
    if any(name.endswith("error_code") for name in row_type.FIELDS):
        return True
    return any(
        inner is not None and _tells_errors(inner)
        for name in row_type.FIELDS
        if row_type.FIELDS[name][0].startswith("list[")
        for inner in [_row_type(row_type, name)]
    )
