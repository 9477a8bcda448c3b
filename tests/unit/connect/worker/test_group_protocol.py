"""What workers tell each other in Kafka's bytes, and who gets what."""

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from moldau.services.connect.group.assignment import assign
from moldau.services.connect.group.protocol import (
    CONNECTOR,
    NOTHING,
    Assignment,
    Work,
    WorkerState,
    decode_assignment,
    decode_state,
    encode_assignment,
    encode_state,
)
from moldau.services.connect.runtime.interface import TaskId

items = st.frozensets(st.builds(TaskId, st.sampled_from("abcd"), st.integers(CONNECTOR, 5)), max_size=24)


def tasks(name: str, count: int) -> Work:
    return frozenset(TaskId(name, index) for index in range(count))


def test_the_bytes_are_kafkas() -> None:
    assert encode_state(WorkerState("u", 3), 0) == b"\0\0" + b"\0\x01u" + b"\0" * 7 + b"\x03"
    assert encode_state(WorkerState("u", 3), 2) == b"\0\x02" + b"\0\x01u" + b"\0" * 7 + b"\x03" + b"\xff" * 4
    work = frozenset((TaskId("c", CONNECTOR), TaskId("c", 1)))
    one = b"\0\0\0\x01\0\x01c\0\0\0\x02\xff\xff\xff\xff\0\0\0\x01"
    head = b"\0\0" + b"\0\x01l" + b"\0\x01u" + b"\0" * 7 + b"\x05"
    assert encode_assignment(Assignment("l", "u", 5, work), 0) == b"\0\0" + head + one
    revoked = Assignment("l", "u", 5, NOTHING, work, delay_ms=9)
    assert encode_assignment(revoked, 1) == b"\0\x01" + head + b"\0" * 4 + one + b"\0\0\0\x09"


@given(items, items, st.sampled_from([1, 2]))
def test_what_is_written_is_read(assigned: Work, revoked: Work, version: int) -> None:
    assignment = Assignment("leader", "http://ä", 7, assigned, revoked, 1, 3)
    assert decode_assignment(encode_assignment(assignment, version)) == assignment
    state = WorkerState("http://ä", 7, assigned)
    assert decode_state(encode_state(state, version)) == state


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for decode in (decode_state, decode_assignment):
        with contextlib.suppress(ValueError):
            decode(data)


def settled(held: dict[str, Work], wanted: Work, before: dict[str, Work] | None = None) -> dict[str, Work]:
    """Rounds until nothing changes; what nobody may see: one thing at two workers."""
    memory = dict(held if before is None else before)
    for _ in range(10):
        shares = assign(held, wanted, memory)
        now = {worker: (held[worker] - share.revoked) | share.assigned for worker, share in shares.items()}
        given = [each for share in shares.values() for each in share.assigned]
        assert len(given) == len(set(given))
        assert not set(given) & {each for worker in held for each in held[worker]}
        memory |= now
        if now == held:
            return held
        held = now
    raise AssertionError("it does not settle")


@given(st.lists(items, min_size=1, max_size=5), items)
def test_it_settles_balanced_with_everything_once(given_work: list[Work], wanted: Work) -> None:
    end = settled({f"w{index}": work for index, work in enumerate(given_work)}, wanted)
    everything = [each for work in end.values() for each in work]
    assert len(everything) == len(set(everything))
    assert set(everything) == wanted
    for is_connector in (True, False):
        counts = [sum((each.task == CONNECTOR) is is_connector for each in work) for work in end.values()]
        assert max(counts) - min(counts) <= 1


def test_a_new_connector_moves_nothing_else() -> None:
    held = settled({"a": NOTHING, "b": NOTHING, "c": NOTHING}, tasks("x", 7))
    end = settled(held, tasks("x", 7) | tasks("y", 1))
    assert all(held[worker] <= end[worker] for worker in held)


def test_a_lost_workers_tasks_move_at_once_and_it_takes_its_own_back() -> None:
    held = settled({"a": NOTHING, "b": NOTHING, "c": NOTHING}, tasks("x", 9))
    survivors = {worker: held[worker] for worker in ("a", "b")}
    shares = assign(survivors, tasks("x", 9), held)
    assert frozenset().union(*(share.assigned for share in shares.values())) == held["c"]
    assert not any(share.revoked for share in shares.values())
    without = settled(survivors, tasks("x", 9), held)
    assert settled(without | {"c": NOTHING}, tasks("x", 9), held) == held


def test_what_two_have_is_taken_from_one() -> None:
    shares = assign({"a": tasks("x", 2), "b": tasks("x", 1)}, tasks("x", 2), {})
    assert shares["b"].revoked == tasks("x", 1)
