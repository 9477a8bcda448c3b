"""What all readers together saw, looked up by value and by offset; made once for all judges."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from histories.complaint import INCONSISTENT, Complaint, at
from histories.history import History, Place, Send, Transaction


class Index:
    """Sends by value, transactions by key, and the offsets that are known to hold something."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.sends: dict[str, Send] = {one.value: one for one in history.sends}
        self.transactions: dict[tuple[str, int], Transaction] = {
            (one.producer, one.number): one for one in history.transactions
        }
        self.values: dict[tuple[Place, int], str] = {}
        """What was first seen at each offset, by any reader."""
        self.final_offsets: dict[str, list[tuple[Place, int]]] = {}
        """Where the final reading found each value."""
        self._trimmed = {trim.place: history.trimmed_to(trim.place) for trim in history.trims}
        self.contradictions: list[Complaint] = []
        committed: dict[Place, set[int]] = {}
        all_offsets: dict[Place, set[int]] = {}
        for place, records in history.final.items():
            for offset, value in records:
                self.final_offsets.setdefault(value, []).append((place, offset))
            self._note(place, records, "the final reading")
            committed.setdefault(place, set()).update(offset for offset, _ in records)
            all_offsets.setdefault(place, set()).update(offset for offset, _ in records)
        for poll in history.polls:
            self._note(poll.place, poll.records, poll.consumer)
            all_offsets.setdefault(poll.place, set()).update(offset for offset, _ in poll.records)
            if poll.committed:
                committed.setdefault(poll.place, set()).update(offset for offset, _ in poll.records)
        self._committed = {place: sorted(found) for place, found in committed.items()}
        self._all = {place: sorted(found) for place, found in all_offsets.items()}

    def known_between(self, place: Place, start: int, end: int, *, committed: bool) -> list[int]:
        """The offsets from `start` up to, not including, `end` that some reader of that isolation saw."""
        offsets = (self._committed if committed else self._all).get(place, [])
        return offsets[bisect_left(offsets, start) : bisect_left(offsets, end)]

    def may_be_deleted(self, send: Send) -> bool:
        """Whether DeleteRecords may have taken it away."""
        return send.offset is not None and send.offset < self._trimmed.get(send.place, 0)

    def transaction_of(self, send: Send) -> Transaction | None:
        """The send's transaction, one that nobody noted being one that was never ended."""
        if send.transaction is None:
            return None
        key = (send.producer, send.transaction)
        return self.transactions.get(key) or Transaction(*key)

    def _note(self, place: Place, records: Iterable[tuple[int, str]], reader: str) -> None:
        values = self.values
        for offset, value in records:
            known = values.setdefault((place, offset), value)
            if known != value:
                text = f"{at(place, offset)} held {known}, and {reader} read {value} there"
                self.contradictions.append(Complaint(INCONSISTENT, text))
