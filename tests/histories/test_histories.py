"""Each judge has a history that must fail, and a similar one that must pass."""

from __future__ import annotations

import pytest

from histories.checker import check
from histories.complaint import (
    ABORTED_READ,
    DELETED_READ,
    DUPLICATE,
    INCONSISTENT,
    INVENTED,
    LOST,
    LOST_COMMIT,
    POLL_BACK,
    POLL_SKIP,
    SEND_BACK,
    TORN,
    UNSEEN,
)
from histories.history import (
    ACKNOWLEDGED,
    FAILED,
    UNKNOWN,
    Commit,
    Fault,
    History,
    Place,
    Poll,
    Resume,
    Send,
    Transaction,
    Trim,
)
from histories.lines import from_lines, to_lines

HERE: Place = ("orders", 0)
THERE: Place = ("orders", 1)


def sent(number: int, offset: int | None = None, outcome: str = "", **more: object) -> Send:
    told = outcome or (UNKNOWN if offset is None else ACKNOWLEDGED)
    return Send("p", number, more.pop("place", HERE), f"v{number}", outcome=told, offset=offset, **more)  # type: ignore[arg-type]


def history(*sends: Send, final: list[tuple[int, str]], end: int | None = None, **more: object) -> History:
    found = History(sends=list(sends), faults=[Fault("kill", 0, 1, bit=True)], **more)  # type: ignore[arg-type]
    found.final = {HERE: final}
    found.final_ends = {HERE: end if end is not None else max((o + 1 for o, _ in final), default=0)}
    return found


def poll(*records: tuple[int, str], to: int | None = None, **more: object) -> Poll:
    return Poll("c", HERE, list(records), records[-1][0] + 1 if to is None else to, **more)  # type: ignore[arg-type]


V0, V1, V2 = (0, "v0"), (1, "v1"), (2, "v2")
THREE = [sent(0, 0), sent(1, 1), sent(2, 2)]
COMMITTED = Transaction("p", 1, True, ACKNOWLEDGED)
ABORTED = Transaction("p", 1, False, ACKNOWLEDGED)

BROKEN: dict[str, tuple[str, History]] = {
    "an acknowledged write is gone": (LOST, history(*THREE, final=[V0, V2])),
    # The election of a replica that was not in sync: its log ends earlier and goes on with other records.
    "an unclean election": (
        LOST,
        history(*THREE, sent(3, 1), final=[V0, (1, "v3")], polls=[poll(V0, V1, V2)]),
    ),
    "readers do not get that far": (UNSEEN, history(*THREE, final=[V0, V1])),
    "a retry is appended again": (DUPLICATE, history(*THREE, final=[V0, V1, V2, (3, "v1")])),
    "an unknown send is there twice": (DUPLICATE, history(sent(0), final=[V0, (1, "v0")])),
    "two readers, two values": (
        INCONSISTENT,
        history(sent(0), sent(1), final=[V0], polls=[poll((0, "v1"))]),
    ),
    "acknowledged at another's offset": (INCONSISTENT, history(sent(0, 0), sent(1, 0), final=[V0])),
    "a refused write is there": (ABORTED_READ, history(sent(0, outcome=FAILED), final=[V0])),
    "aborted, and read": (
        ABORTED_READ,
        history(sent(0, 0, transaction=1), final=[V0], transactions=[ABORTED]),
    ),
    "aborted, and read once": (
        ABORTED_READ,
        history(sent(0, 0, transaction=1), final=[], end=2, transactions=[ABORTED], polls=[poll(V0)]),
    ),
    "never ended, and read": (ABORTED_READ, history(sent(0, 0, transaction=1), final=[V0])),
    "committed, and gone": (
        LOST,
        history(sent(0, 0, transaction=1), final=[], end=2, transactions=[COMMITTED]),
    ),
    "half of a committed transaction": (
        TORN,
        history(
            sent(0, 0, transaction=1), sent(1, 1, transaction=1), final=[V0], end=3, transactions=[COMMITTED]
        ),
    ),
    "half of a transaction of unknown outcome": (
        TORN,
        history(
            sent(0, 0, transaction=1),
            sent(1, 1, transaction=1),
            final=[V1],
            transactions=[Transaction("p", 1, True)],
        ),
    ),
    "a consumer skips": (POLL_SKIP, history(*THREE, final=[V0, V1, V2], polls=[poll(V0), poll(V2)])),
    "a consumer skips and finds nothing": (
        POLL_SKIP,
        history(*THREE, final=[V0, V1, V2], polls=[poll(V0), poll(to=3)]),
    ),
    "a consumer is set back": (
        POLL_BACK,
        history(*THREE, final=[V0, V1, V2], polls=[poll(V0, V1), poll(V0)]),
    ),
    "a consumer's position goes back": (
        POLL_BACK,
        history(*THREE, final=[V0, V1, V2], polls=[poll(V0, V1), poll(to=0)]),
    ),
    "a producer's records change places": (
        SEND_BACK,
        history(sent(0), sent(1), final=[(0, "v1"), (1, "v0")]),
    ),
    "acknowledged against their order": (
        SEND_BACK,
        history(sent(0, 1), sent(1, 0), final=[(0, "v1"), (1, "v0")]),
    ),
    "nobody sent it": (INVENTED, history(sent(0, 0), final=[V0, (1, "x")])),
    "sent elsewhere": (INVENTED, history(sent(0, place=THERE), final=[V0])),
    "a group is set back": (
        LOST_COMMIT,
        history(
            *THREE,
            final=[V0, V1, V2],
            commits=[Commit("g", HERE, 1, 1, ACKNOWLEDGED, 2), Commit("g", HERE, 2, 3, ACKNOWLEDGED, 4)],
            resumes=[Resume("g", HERE, 1, 5, 6)],
        ),
    ),
    "a deleted record is there again": (
        DELETED_READ,
        history(*THREE, final=[V1, V2], trims=[Trim(HERE, 2, 1, ACKNOWLEDGED, 2)]),
    ),
    "more than was deleted is gone": (
        LOST,
        history(*THREE, final=[V2], trims=[Trim(HERE, 1, 1, ACKNOWLEDGED, 2)]),
    ),
    "a group has forgotten": (
        LOST_COMMIT,
        history(
            *THREE,
            final=[V0, V1, V2],
            commits=[Commit("g", HERE, 1, 1, ACKNOWLEDGED, 2)],
            resumes=[Resume("g", HERE, -1, 5, 6)],
        ),
    ),
}

KEPT: dict[str, History] = {
    "all is there": history(*THREE, final=[V0, V1, V2], polls=[poll(V0), poll(V1, V2), poll(to=3)]),
    "an unknown send is recovered": history(sent(0, 0), sent(1), final=[V0, V1]),
    "an unknown send is absent": history(sent(0, 0), sent(1), final=[V0]),
    "acks=1 is lost with its leader": history(
        sent(0, 0), sent(1, 1, acks=1), sent(2, 1), final=[V0, (1, "v2")]
    ),
    "sent again without a sequence": history(sent(0, 0, once=False, ordered=False), final=[V0, (1, "v0")]),
    "without order": history(
        sent(0, 0), sent(1, ordered=False), sent(2, ordered=False), final=[V0, (1, "v2"), (2, "v1")]
    ),
    "refused, and absent": history(sent(0, 0), sent(1, outcome=FAILED), final=[V0]),
    "aborted, and read by who reads everything": history(
        sent(0, 0),
        sent(1, 1, transaction=1),
        final=[V0],
        end=3,
        transactions=[ABORTED],
        polls=[poll(V0, V1, committed=False), poll(V0, to=3, committed=True, began=0)],
    ),
    "an unknown transaction is whole": history(
        sent(0, 0, transaction=1),
        sent(1, 1, transaction=1),
        final=[V0, V1],
        transactions=[Transaction("p", 1, True)],
    ),
    "an unknown transaction is absent": history(
        sent(0, 0, transaction=1), sent(1, 1), final=[V1], transactions=[Transaction("p", 1, True)]
    ),
    "a consumer seeks": history(*THREE, final=[V0, V1, V2], polls=[poll(V0, V1), poll(V0, began=0)]),
    "what was deleted, or may have been, is gone": history(
        *THREE,
        sent(3, 3, transaction=1),
        sent(4, 4, transaction=1),
        sent(5, 5),
        final=[(4, "v4"), (5, "v5")],
        transactions=[COMMITTED],
        trims=[Trim(HERE, 2, 1, ACKNOWLEDGED, 2), Trim(HERE, 4, 1), Trim(HERE, 6, 1, FAILED, 2)],
    ),
    "a deletion of unknown outcome was not made": history(
        *THREE, final=[V0, V1, V2], trims=[Trim(HERE, 2, 1)]
    ),
    "a gap that nobody can see": history(sent(0, 0), sent(2, 2), final=[V0, V2], polls=[poll(V0), poll(V2)]),
    "groups": history(
        *THREE,
        final=[V0, V1, V2],
        commits=[
            Commit("g", HERE, 1, 1, ACKNOWLEDGED, 2),
            Commit("g", HERE, 2, 3),
            Commit("g", HERE, 3, 5, ACKNOWLEDGED, 8),
        ],
        resumes=[
            Resume("g", HERE, -1, 0, 0.5),
            Resume("g", HERE, 1, 2.5, 4),
            Resume("g", HERE, 2, 4, 5),
            Resume("g", HERE, 3, 6, 7),
            Resume("g", HERE, 2, 9, 10),  # unknown: it may have come after 3
            Resume("other", HERE, -1, 9, 10),
        ],
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_promise_is_seen(name: str) -> None:
    kind, found = BROKEN[name]
    verdict = check(found)
    assert verdict.result == "fail"
    assert kind in verdict.kinds, str(verdict)


@pytest.mark.parametrize("name", KEPT)
def test_what_is_allowed_passes(name: str) -> None:
    verdict = check(KEPT[name])
    assert verdict.result == "pass", str(verdict)


def test_a_fault_that_nobody_felt_proves_nothing() -> None:
    found = history(*THREE, final=[V0, V1, V2])
    found.faults[0].bit = False
    assert check(found).result == "unknown"
    assert check(History(faults=[Fault("kill", 0, 1, bit=True)])).result == "unknown"
    found.final = {}
    assert check(found).result == "fail"  # a loss is one, whatever caused it


def test_ambiguous_sends_are_counted_as_recovered_or_absent() -> None:
    counts = check(history(sent(0, 0), sent(1), sent(2), final=[V0, V2])).counts
    assert (counts["recovered"], counts["absent"], counts["acknowledged"]) == (1, 1, 1)


@pytest.mark.parametrize("name", [*BROKEN, *KEPT])
def test_lines_keep_everything(name: str) -> None:
    found = KEPT.get(name) or BROKEN[name][1]
    assert from_lines(to_lines(found)) == found


def test_the_later_line_counts_and_a_torn_one_does_not() -> None:
    first, last = (next(iter(to_lines(History(sends=[one])))) for one in (sent(0), sent(0, 7)))
    assert from_lines([first, last, last[:20]]).sends == [sent(0, 7)]
