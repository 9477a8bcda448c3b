"""A history as lines of JSON, which several processes write and one reads.

    {"send": ["p1", 7, ["orders", 0], "p1.7", 12.5, "unknown", null, null, -1, true, true, null]}

A send, transaction, commit or fault may be written twice, before and after: the later line of the same key
counts. A process that is killed in between leaves the first. A torn last line is left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any

from histories.history import Commit, Fault, History, Poll, Resume, Send, Transaction, Trim

Item = Send | Transaction | Poll | Commit | Resume | Fault | Trim
_TYPES: dict[str, type[Any]] = {
    "send": Send, "transaction": Transaction, "poll": Poll, "commit": Commit, "resume": Resume,
    "fault": Fault, "trim": Trim,
}  # fmt: skip
_NAMES = {kind: name for name, kind in _TYPES.items()}


def to_line(item: Item) -> str:
    """One line, without its end."""
    values = [getattr(item, field.name) for field in fields(item)]
    return json.dumps({_NAMES[type(item)]: [None if value == math.inf else value for value in values]})


def to_lines(history: History) -> Iterator[str]:
    """The whole history, the final reading too."""
    for items in (history.transactions, history.sends, history.polls, history.commits, history.resumes,
                  history.faults, history.trims):  # fmt: skip
        yield from map(to_line, items)
    for place, records in history.final.items():
        yield json.dumps({"final": [place, history.final_ends.get(place, 0), records]})


def from_lines(lines: Iterable[str]) -> History:
    """The history of all lines, whoever wrote them."""
    history = History()
    found: dict[str, dict[Any, Any]] = {name: {} for name in _TYPES}
    for number, line in enumerate(lines):
        try:
            ((name, values),) = json.loads(line).items()
        except ValueError:
            continue
        if name == "final":
            place, end, records = values
            history.final[place[0], place[1]] = [(offset, value) for offset, value in records]
            history.final_ends[place[0], place[1]] = end
            continue
        item = _item(_TYPES[name], values)
        found[name][_key(item, number)] = item
    history.sends, history.transactions = [*found["send"].values()], [*found["transaction"].values()]
    history.polls, history.commits = [*found["poll"].values()], [*found["commit"].values()]
    history.resumes, history.faults = [*found["resume"].values()], [*found["fault"].values()]
    history.trims = [*found["trim"].values()]
    return history


def _item(kind: type[Any], values: list[Any]) -> Any:
    item = kind(*values)
    if hasattr(item, "place"):
        item.place = tuple(item.place)
    if hasattr(item, "ended_s") and item.ended_s is None:
        item.ended_s = math.inf
    if isinstance(item, Poll):
        item.records = [(offset, value) for offset, value in item.records]
    return item


def _key(item: Item, number: int) -> Any:
    if isinstance(item, Send | Transaction):
        return item.producer, item.number
    if isinstance(item, Trim):
        return item.place, item.offset, item.invoked_s
    if isinstance(item, Commit):
        return item.group, item.place, item.offset, item.invoked_s
    if isinstance(item, Fault):
        return item.name, item.began_s
    return number
