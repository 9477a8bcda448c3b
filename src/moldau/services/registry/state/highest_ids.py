"""The highest id that was ever given in each context, and the records that keep it.

After a schema was deleted for good and compacted away, nothing but these records says that its id was given.
They are NOOP records, of which other registries look at the key only. A context's number is in the record of
its page, so that no record grows with the number of contexts:

    {"keytype":"NOOP","magic":0}      {"maxIds":{".":17}}                 page 0: the default context
    {"keytype":"NOOP","magic":0}··    {"maxIds":{".ci-7":3,".dev":12}}    page 2: as many spaces after the key

Spaces, because compaction goes by a key's bytes, and JSON by what they mean. Page 0 may have other contexts,
too: it was the only one. Not here: locking (state.py).
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable
from typing import Any
from zlib import crc32

from moldau.services.registry.names import DEFAULT_CONTEXT
from moldau.services.registry.state.records import Key, KeyType, Record, UnknownRecord, number

MAX_IDS = "maxIds"
IMPORTED_ID_MAX = 2**31 - 1 - 100_000_000
"""An import may bring no higher id: what is above is for new schemas."""
_PAGES = 64
"""One record holds some thousands of contexts."""


class HighestIds:
    """By context; changed by replay alone."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._below_margin: dict[str, int] = {}
        self._contexts: dict[int, set[str]] = {}
        self._written: dict[int, dict[str, int]] = {}

    def saw(self, context: str, schema_id: int) -> None:
        """An id was given."""
        known = self._ids.get(context)
        if known is None:
            self._contexts.setdefault(_page_of(context), set()).add(context)
        self._ids[context] = max(known or 0, schema_id)
        if schema_id <= IMPORTED_ID_MAX:
            self._below_margin[context] = max(self._below_margin.get(context, 0), schema_id)

    def replay(self, page: int, value: dict[str, Any] | None) -> None:
        """Take over the record of a page. UnknownRecord."""
        found = (value or {}).get(MAX_IDS, {})
        if not isinstance(found, dict):
            raise UnknownRecord("its highest ids are no object")
        written = {str(context): number(found, context) for context in found}
        self._written[page] = written
        for context, schema_id in written.items():
            self.saw(context, schema_id)

    def get(self, context: str) -> int:
        """The highest id that was ever given in a context; 0 if none was."""
        return self._ids.get(context, 0)

    def below_margin(self, context: str) -> int:
        """The highest one that is known to have been given and that an import may bring; else 0."""
        return self._below_margin.get(context, 0)

    def items(self) -> ItemsView[str, int]:
        """All, by context."""
        return self._ids.items()

    def written(self, context: str) -> int:
        """What the records say; 0 if they do not know the context."""
        return max(self._written.get(page, {}).get(context, 0) for page in (0, _page_of(context)))

    def records(self, contexts: Iterable[str]) -> list[Record]:
        """What keeps the highest ids of these contexts."""
        pages = {_page_of(context) for context in contexts}
        if 0 in pages:  # which forgets what it knows of others
            pages |= {_page_of(context) for context in self._written.get(0, ())}
        return [
            Record(Key(KeyType.NOOP, "", page), {MAX_IDS: {each: self._ids[each] for each in sorted(found)}})
            for page in sorted(pages)
            if (found := self._contexts.get(page))
        ]


def _page_of(context: str) -> int:
    if context == DEFAULT_CONTEXT:
        return 0
    return 1 + crc32(context.encode("utf-8", "surrogatepass")) % _PAGES
