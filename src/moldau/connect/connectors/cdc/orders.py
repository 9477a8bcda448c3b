"""Which tables are to be read while changes flow, and how far; orders are rows of a table of signals.

signal   id | type | data        execute-snapshot {"data-collections": ["schema.table"]}     stop-snapshot
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Orders:
    """Tables in their order; the first is being read, `last_key` is its last one that was delivered."""

    waiting: list[str] = field(default_factory=list)
    last_key: list[str | None] | None = None

    def state(self) -> str:
        """For the offset; empty: nothing is going on."""
        return json.dumps({"tables": self.waiting, "last": self.last_key}) if self.waiting else ""

    def restore(self, state: str) -> None:
        """Go on from an offset."""
        if state:
            kept = json.loads(state)
            self.waiting, self.last_key = kept["tables"], kept["last"]

    def take(self, row: Sequence[Any]) -> bool:
        """A row of the table (id, type, data); True: the table that is being read is not to be read on."""
        _, kind, data = (list(row) + [None] * 3)[:3]
        if kind == "execute-snapshot":
            for each in _tables_in(data):
                if each not in self.waiting:
                    self.waiting.append(each)
        elif kind == "stop-snapshot":
            named = _tables_in(data)
            stopped = self.waiting[:1]
            self.waiting = [each for each in self.waiting if named and each not in named]
            if self.waiting[:1] != stopped:
                self.last_key = None
                return True
        return False

    def next_table(self) -> None:
        """The first one is read, or cannot be."""
        self.waiting, self.last_key = self.waiting[1:], None


def _tables_in(data: Any) -> list[str]:
    try:
        named = list(json.loads(data or "{}").get("data-collections") or [])
    except (ValueError, AttributeError, TypeError, RecursionError):
        _LOG.warning("a signal has data that is no JSON object, and is passed over: %.200r", data)
        return []
    return [".".join(str(each).split(".")[-2:]) for each in named]


def means(given: str, name: str) -> bool:
    """Whether a name in an order is that of a table (`schema.table`); parts may be in quotes."""
    return given == name or given.replace('"', "").replace("`", "") == name
