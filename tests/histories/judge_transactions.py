"""Is a transaction whole or absent, and is nothing aborted read as committed?

committed            every acknowledged record is there
aborted, never ended none was ever shown to a read_committed reader
unknown              all are there, or none

Only acknowledged sends make a transaction's content: a producer that does not know what became of a record
does not commit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from histories.complaint import ABORTED_READ, TORN, Complaint, at
from histories.history import ACKNOWLEDGED, Send
from histories.index import Index
from histories.judge_writes import missing


def judge_transactions(index: Index, counts: Counter[str]) -> Iterator[Complaint]:
    """Every transaction against the final reading and every read_committed poll."""
    yield from _aborted_reads(index)
    members: dict[tuple[str, int], list[Send]] = {}
    for send in index.history.sends:
        if send.transaction is not None:
            members.setdefault((send.producer, send.transaction), []).append(send)
    for (producer, number), sends in members.items():
        transaction = index.transaction_of(sends[0])
        assert transaction is not None
        there = [send for send in sends if send.value in index.final_offsets]
        gone = [
            send
            for send in sends
            if send.value not in index.final_offsets
            and send.outcome == ACKNOWLEDGED
            and not index.may_be_deleted(send)
        ]
        if transaction.must_be_seen:
            counts["transactions committed"] += 1
        elif transaction.must_not_be_seen:
            counts["transactions aborted"] += 1
        else:
            counts["transactions " + ("recovered" if there else "absent")] += 1
        if transaction.must_be_seen and not there:
            for send in gone:
                yield missing(index, send)
        elif there and gone and not transaction.must_not_be_seen:
            shown = ", ".join(send.value for send in there[:3])
            yield Complaint(TORN, f"{producer} transaction {number} shows {shown}; {missing(index, gone[0])}")


def _aborted_reads(index: Index) -> Iterator[Complaint]:
    """Once for each record."""
    told: set[str] = set()
    readers = [("the final reading", place, records) for place, records in index.history.final.items()]
    readers += [(one.consumer, one.place, one.records) for one in index.history.polls if one.committed]
    for reader, place, records in readers:
        for offset, value in records:
            send = index.sends.get(value)
            if send is None or value in told:
                continue
            transaction = index.transaction_of(send)
            if transaction is not None and transaction.must_not_be_seen:
                told.add(value)
                fate = "aborted" if transaction.commit is not None else "never ended"
                text = (
                    f"{reader} read {value} at {at(place, offset)};"
                    f" {send.producer} transaction {send.transaction} was {fate}"
                )
                yield Complaint(ABORTED_READ, text)
