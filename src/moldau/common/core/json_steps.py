"""Untrusted JSON: counts its values, and parses it in steps that let other threads run.

A JSON parser in C holds the interpreter until it is done: 4 MB of `{},{},{}` are a million objects, and an
event loop in another thread stands still for 100 ms. So whoever reads megabytes counts the values first (64
KiB at a time), refuses too many, and parses what is long by the standard library's parser in Python, in which
threads take turns.
"""

from __future__ import annotations

import json
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from typing import Any

_PIECE_BYTES = 64 * 1024


def has_more_values(text: bytes, most: int) -> bool:
    """Whether JSON text has more values than `most`: it itself, elements, members.

    An empty list or object counts for two. What is not JSON may have any count.
    """
    count, is_inside, carried = 1, 0, b""
    for start in range(0, len(text), _PIECE_BYTES):
        piece = carried + text[start : start + _PIECE_BYTES]
        # An escape stands in strings only, and is whole in one piece.
        is_cut = (len(piece) - len(piece.rstrip(b"\\"))) % 2
        carried = b"\\" * is_cut
        piece = piece[: len(piece) - is_cut].replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.split(b'"')
        outside = b"".join(parts[is_inside::2])
        is_inside = (is_inside + len(parts) - 1) % 2
        count += outside.count(b",") + outside.count(b"[") + outside.count(b"{")
        if count > most:
            return True
    return False


def load_in_steps(text: str, **hooks: Any) -> Any:
    """As `json.loads`, with its hooks; a few times slower. Threads take turns with it."""
    decoder = json.JSONDecoder(**hooks)
    decoder.scan_once = py_make_scanner(decoder)  # type: ignore[attr-defined]
    return decoder.decode(text)
