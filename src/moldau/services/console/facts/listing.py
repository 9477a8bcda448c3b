"""Search, order and pages of long lists: what the rows of a table are, from what the URL says.

Search is by parts of the name, in any order and case: `ord eu` finds `eu.orders`. A row whose sort key is not
known yet comes last, in either direction. All of it is one pass over names in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Key = Callable[[T], Any]

PAGE_SIZES = (25, 50, 100, 250)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the URL asks for; page numbers begin with 1."""

    search: str = ""
    sort: str = "name"
    descending: bool = False
    page: int = 1
    size: int = 50

    @classmethod
    def of(cls, query: Mapping[str, str], sorts: Iterable[str], default: str = "name") -> Wanted:
        """From a query: q, sort (`-lag` descends), page, size. What is not understood has its default."""
        sort = query.get("sort", default)
        descending, name = sort.startswith("-"), sort.removeprefix("-")
        if name not in sorts:
            descending, name = default.startswith("-"), default.removeprefix("-")
        size = _number(query.get("size"), 50)
        return cls(
            query.get("q", "")[:200].strip(),
            name,
            descending,
            max(1, _number(query.get("page"), 1)),
            size if size in PAGE_SIZES else 50,
        )

    @property
    def sort_text(self) -> str:
        """As the URL has it."""
        return f"-{self.sort}" if self.descending else self.sort


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """One page of a list: its rows, and how many there are."""

    rows: Sequence[T]
    found: int
    total: int
    page: int
    pages: int


def listed(
    rows: Iterable[T], wanted: Wanted, keys: Mapping[str, Key[T]], name: Callable[[T], str]
) -> Listed[T]:
    """The page that is wanted; the last one where it lies behind the end."""
    everything = list(rows)
    words = wanted.search.lower().split()
    found = [row for row in everything if all(word in name(row).lower() for word in words)]
    key = keys[wanted.sort]
    known = [row for row in found if key(row) is not None]
    if len(known) != len(found):
        unknown = [row for row in found if key(row) is None]
    else:
        unknown = []
    known.sort(key=key, reverse=wanted.descending)
    ordered = known + unknown
    pages = max(1, -(-len(ordered) // wanted.size))
    page = min(wanted.page, pages)
    start = (page - 1) * wanted.size
    return Listed(ordered[start : start + wanted.size], len(ordered), len(everything), page, pages)


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else default
