"""Is what was acknowledged there, once, where it was said to be, and in order?

acknowledged, acks=all, no transaction   there
refused for good                         not there
unknown                                  there (recovered) or not (absent), but not twice
acks=1, acks=0                           promised nothing when a leader is lost; never twice either
in a transaction                         judge_transactions.py; order and offsets are judged here
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from histories.complaint import (
    ABORTED_READ,
    DUPLICATE,
    INCONSISTENT,
    INVENTED,
    LOST,
    SEND_BACK,
    UNSEEN,
    Complaint,
    at,
)
from histories.history import ACKNOWLEDGED, FAILED, Place, Send
from histories.index import Index


def judge_writes(index: Index, counts: Counter[str]) -> Iterator[Complaint]:
    """Every send against the final reading; counts what became of the ambiguous ones."""
    yield from index.contradictions
    yield from _invented(index)
    for send in index.history.sends:
        found = index.final_offsets.get(send.value, [])
        counts[send.outcome] += 1
        if len(found) > 1 and send.once:
            places = ", ".join(at(*each) for each in found)
            yield Complaint(DUPLICATE, f"{_name(send)} lies at {places}")
        if send.appends_max is not None and len(found) > send.appends_max:
            text = f"{_name(send)} was sent {send.appends_max} times, and lies at {len(found)} offsets"
            yield Complaint(DUPLICATE, text)
        yield from _offset(index, send)
        if send.transaction is not None:
            continue
        if send.outcome == ACKNOWLEDGED:
            if not found and index.may_be_deleted(send):
                counts["deleted"] += 1
            elif not found and send.acks == -1:
                yield missing(index, send)
            elif not found:
                counts["lost, acks=1"] += 1
        elif found and send.outcome == FAILED:
            yield Complaint(ABORTED_READ, f"{_name(send)} was refused, and lies at {at(*found[0])}")
        else:
            counts["recovered" if found else "absent"] += 1
    yield from _order(index)


def missing(index: Index, send: Send) -> Complaint:
    """An acknowledged send that the final reading does not have."""
    end = index.history.final_ends.get(send.place, 0)
    passed = send.offset is None or send.offset < end
    where = at(send.place, send.offset)
    if passed:
        return Complaint(LOST, f"{_name(send)} was acknowledged at {where}, and is not there")
    return Complaint(UNSEEN, f"{_name(send)} was acknowledged at {where}, read only to {end}")


def _invented(index: Index) -> Iterator[Complaint]:
    for (place, offset), value in index.values.items():
        send = index.sends.get(value)
        if send is None:
            yield Complaint(INVENTED, f"{at(place, offset)} holds {value!r}, which nobody sent")
        elif send.place != place:
            yield Complaint(INVENTED, f"{at(place, offset)} holds {_name(send)}, sent to {send.place}")


def _offset(index: Index, send: Send) -> Iterator[Complaint]:
    """What lies where the send was acknowledged. With acks=1 a lost record's offset is used again."""
    if send.outcome != ACKNOWLEDGED or send.offset is None or send.acks != -1:
        return
    value = index.values.get((send.place, send.offset))
    if value is not None and value != send.value:
        text = f"{_name(send)} was acknowledged at {at(send.place, send.offset)}, which holds {value}"
        yield Complaint(INCONSISTENT, text)


def _order(index: Index) -> Iterator[Complaint]:
    """Sends of one producer to one partition lie, and were acknowledged, in the order of their numbers."""
    last: dict[tuple[str, Place], Send] = {}
    for place, records in index.history.final.items():
        for offset, value in records:
            send = index.sends.get(value)
            if send is None or not send.ordered:
                continue
            before = last.get((send.producer, place))
            if before is not None and send.number < before.number:
                text = f"{_name(send)} at {at(place, offset)} lies behind {_name(before)}"
                yield Complaint(SEND_BACK, text)
            last[send.producer, place] = send
    told: dict[tuple[str, Place], Send] = {}
    for send in sorted(index.history.sends, key=lambda one: (one.producer, one.number)):
        if send.outcome != ACKNOWLEDGED or send.offset is None or not send.ordered or send.acks != -1:
            continue
        before = told.get((send.producer, send.place))
        if before is not None and before.offset is not None and send.offset <= before.offset:
            text = f"{_name(send)} was acknowledged at {send.offset}, {_name(before)} at {before.offset}"
            yield Complaint(SEND_BACK, text)
        told[send.producer, send.place] = send


def _name(send: Send) -> str:
    part = "" if send.transaction is None else f" of transaction {send.transaction}"
    return f"{send.value} ({send.producer} number {send.number}{part}, {send.place[0]}-{send.place[1]})"
