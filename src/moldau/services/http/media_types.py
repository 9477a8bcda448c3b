"""Media types: which one a response is sent in, and whether a request's body is in one that is read.

As JAX-RS does it for Confluent's services: the Accept header's ranges with their weights; of equal ones the
service's own order decides. No Accept header means anything.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

HEADER_BYTES_MAX = 4096
"""Longer Accept headers are read only so far."""

JSON = "application/json"


class Range(NamedTuple):
    """One part of an Accept header."""

    main: str
    sub: str
    quality: float

    def takes(self, media_type: str) -> bool:
        """Whether the range covers this media type."""
        main, _, sub = media_type.partition("/")
        return self.main in ("*", main) and self.sub in ("*", sub)

    @property
    def exactness(self) -> int:
        """2 for a type, 1 for `type/*`, 0 for `*/*`: the most exact range decides a type's quality."""
        return (self.main != "*") + (self.sub != "*")


def essence(content_type: str) -> str:
    """The media type without parameters, in lower case; "" for an absent header."""
    return content_type.partition(";")[0].strip().lower()


def choose(accept: str | None, offered: Sequence[str]) -> str | None:
    """The media type of `offered` (its favourite first) that the client likes best; None if none."""
    if not accept or not accept.strip():
        return offered[0]
    return _choose(accept[:HEADER_BYTES_MAX], tuple(offered))


@lru_cache(maxsize=256)
def _choose(accept: str, offered: tuple[str, ...]) -> str | None:
    ranges = _ranges(accept)
    best, best_quality = None, 0.0
    for media_type in offered:
        takers = [each for each in ranges if each.takes(media_type)]
        if not takers:
            continue
        quality = max(takers, key=lambda each: each.exactness).quality
        if quality > best_quality:
            best, best_quality = media_type, quality
    return best


def _ranges(accept: str) -> list[Range]:
    found = []
    for part in accept.split(","):
        media_type, *parameters = (each.strip().lower() for each in part.split(";"))
        main, _, sub = media_type.partition("/")
        if main:
            found.append(Range(main, sub or "*", _quality(parameters)))
    return found


def _quality(parameters: Sequence[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return min(max(float(value), 0.0), 1.0)
            except ValueError:
                return 0.0
    return 1.0
