"""Values of the records that a load generator sends.

Random values are made before the load begins: making a kilobyte of random letters takes Python longer than
sending it. The pool is larger than the windows of the usual compression codecs, so a codec finds nothing in
it that would not be in fresh random values.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

POOL_BYTES = 8 * 1024 * 1024
POOL_VALUES_MAX = 50_000
_LETTERS = bytes(65 + value % 26 for value in range(256))

Payloads = Callable[[int], list[bytes]]
"""Gives that many values, one after the other."""


def random_letters(size_bytes: int, seed: int = 0) -> Payloads:
    """Values of capital letters, each of `size_bytes`."""
    count = max(2, min(POOL_VALUES_MAX, POOL_BYTES // max(size_bytes, 1)))
    letters = random.Random(seed).randbytes(count * size_bytes).translate(_LETTERS)
    return _in_turn([letters[start * size_bytes : (start + 1) * size_bytes] for start in range(count)])


def lines_of(path: Path, delimiter: str = "\n", seed: int = 0) -> tuple[Payloads, int]:
    """The pieces of a UTF-8 file in random order, again and again; and their number. OSError, ValueError."""
    text = path.read_text(encoding="utf-8")
    pieces = text.split(delimiter)
    if pieces and not pieces[-1]:
        pieces.pop()
    if not pieces:
        raise ValueError("File does not exist or empty file provided.")
    values = [piece.encode() for piece in pieces]
    chosen = random.Random(seed).choices(values, k=max(len(values), min(POOL_VALUES_MAX, 8192)))
    return _in_turn(chosen), len(values)


def counting() -> Payloads:
    """0, 1, 2 and so on in decimal digits."""
    next_number = 0

    def take(count: int) -> list[bytes]:
        nonlocal next_number
        start, next_number = next_number, next_number + count
        return [b"%d" % number for number in range(start, next_number)]

    return take


def _in_turn(pool: list[bytes]) -> Payloads:
    position = 0

    def take(count: int) -> list[bytes]:
        nonlocal position
        taken = pool[position : position + count]
        while len(taken) < count:
            taken += pool[: count - len(taken)]
        position = (position + count) % len(pool)
        return taken

    return take
