"""The runtime on a machine that only remembers strings: batching, order, failures, loading, timers."""

from collections.abc import Iterator
from typing import Any

import pytest
from group_world import MemoryLog
from pending_append import LogError

from moldau.broker.coordinator import entry, loading
from moldau.broker.coordinator.deadlines import Deadlines
from moldau.broker.coordinator.journal import Journal
from moldau.broker.coordinator.result import Parked, ParkedAnswer, Result
from moldau.broker.coordinator.runtime import CoordinatorRuntime
from moldau.broker.metadata.image import GROUP_OFFSETS_TOPIC
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers
from moldau.common.protocol.errors import ErrorCode


class Notebook:
    """The smallest machine: a record is a (key, value) of strings."""

    def __init__(self, partition: int, leader_epoch: int = 0) -> None:
        self.partition = partition
        self.journal = Journal()
        self.deadlines = Deadlines()
        self.pages: dict[str, str] = self.journal.dict()
        self.waiting: list[Parked[str]] = []

    def encode(self, record: tuple[str, str | None]) -> tuple[bytes, bytes | None]:
        key, value = record
        return key.encode(), None if value is None else value.encode()

    def replay(self, record: tuple[str, str | None]) -> None:
        key, value = record
        if value is None:
            self.pages.pop(key)
        elif value == "bug":
            raise ValueError(value)
        else:
            self.pages[key] = value

    def load(self, key: bytes, value: bytes) -> None:
        self.replay((key.decode(), value.decode()))

    def loaded(self, now_ms: int) -> Result[None]:
        return Result()

    def unloaded(self, error_code: int) -> list[ParkedAnswer]:
        return [ParkedAnswer(parked, ErrorCode(error_code).name) for parked in self.waiting]

    def rolled_back(self, error_code: int) -> list[ParkedAnswer]:
        return []

    def due(self, key: Any, now_ms: int) -> Result[None]:
        return Result(records=[(key[0], f"due at {now_ms}")])


class Desk:
    """A runtime with one notebook, and the log beneath it."""

    def __init__(self) -> None:
        self.clock = ManualClock(0)
        self.timers = ManualTimers(self.clock)
        self.log = MemoryLog()
        self.runtime = self.make()
        self.runtime.elected(0, 0)

    def make(self) -> CoordinatorRuntime[Notebook]:
        return CoordinatorRuntime(
            GROUP_OFFSETS_TOPIC, log=self.log, make_state=Notebook, clock=self.clock, timers=self.timers
        )

    @property
    def notebook(self) -> Notebook:
        state = self.runtime.state(0)
        assert state is not None
        return state

    def decide(self, operation: Any) -> "LoopFree":
        parked = LoopFree()
        direct = self.runtime.decide(0, operation, lambda code: ErrorCode(code).name, parked)
        if direct is not None:
            parked.answer(direct)
        return parked

    def write(self, key: str, value: str | None) -> "LoopFree":
        return self.decide(lambda state, now_ms: Result("written", [(key, value)]))

    def read(self, key: str) -> "LoopFree":
        return self.decide(lambda state, now_ms: Result(state.pages.get(key, "blank")))


class LoopFree(Parked[str]):
    """A parked caller outside of any event loop."""

    def outcome(self) -> Any:
        return self.response


def test_what_comes_while_an_append_is_on_its_way_is_one_batch() -> None:
    desk = Desk()
    desk.log.hold = True
    calls = [desk.write("a", "1"), desk.write("b", "2"), desk.write("c", "3"), desk.read("a")]
    assert [call.response for call in calls] == [None] * 4
    desk.log.finish()
    assert [call.response for call in calls] == ["written", None, None, None]
    desk.log.finish()
    assert desk.log.batches == [1, 2]
    assert [call.response for call in calls] == ["written", "written", "written", "1"]
    assert desk.read("b").response == "2", "nothing is pending: the answer is there at once"


def test_a_decision_builds_on_those_before_it() -> None:
    desk = Desk()
    desk.log.hold = True
    desk.write("a", "1")
    seen = desk.read("a")
    assert seen.response is None
    desk.timers.advance(0)
    desk.log.finish()
    assert seen.response == "1"


def test_what_follows_a_commit_happens_then_in_order_and_before_the_answer() -> None:
    desk = Desk()
    desk.log.hold = True
    seen: list[tuple[str, str | None]] = []
    calls: dict[str, LoopFree] = {}

    def write(key: str) -> None:
        def operation(state: Notebook, now_ms: int) -> Result[str]:
            return Result("written", [(key, "1")], on_commit=lambda: seen.append((key, calls[key].response)))

        calls[key] = LoopFree()
        desk.runtime.decide(0, operation, lambda code: ErrorCode(code).name, calls[key])

    for key in "abc":
        write(key)
    desk.log.finish()
    assert seen == [("a", None)]
    desk.log.finish()
    assert seen == [("a", None), ("b", None), ("c", None)]
    assert [call.response for call in calls.values()] == ["written"] * 3
    write("d")
    desk.log.finish(ErrorCode.NOT_ENOUGH_REPLICAS)
    write("e")
    desk.runtime.resigned(0)
    assert len(seen) == 3, "what failed or was given up is not followed by anything"


def test_what_follows_a_commit_may_decide_again_or_give_the_shard_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = Desk()

    def broken() -> None:
        raise ValueError("bug")

    assert desk.decide(lambda state, now_ms: Result("x", [("a", "1")], on_commit=broken)).response == "x"
    assert "on_commit failed" in caplog.text
    again: list[LoopFree] = []
    desk.decide(
        lambda state, now_ms: Result("x", [("a", "2")], on_commit=lambda: again.append(desk.write("b", "2")))
    )
    desk.timers.advance(0)
    assert again[0].response == "written"
    read_only: list[str] = []
    desk.decide(lambda state, now_ms: Result("x", on_commit=lambda: read_only.append("now")))
    assert read_only == ["now"], "nothing is pending: what follows happens at once"
    desk.log.hold = True
    desk.decide(lambda state, now_ms: Result("x", [("a", "3")], on_commit=lambda: desk.runtime.resigned(0)))
    late = desk.write("b", "3")
    desk.log.finish()
    assert late.response == "NOT_COORDINATOR"
    assert not desk.log.in_flight, "a shard that was given up writes no more"


def test_a_failure_undoes_everything_after_it() -> None:
    desk = Desk()
    desk.write("a", "1")
    desk.timers.advance(0)
    desk.log.hold = True
    calls = [desk.write("a", "2"), desk.write("b", "2")]
    desk.timers.advance(0)
    calls += [desk.write("a", "3"), desk.read("a")]
    desk.log.finish(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert [call.response for call in calls] == ["COORDINATOR_NOT_AVAILABLE"] * 4
    assert desk.notebook.pages == {"a": "1"}
    desk.log.hold = False
    assert desk.read("a").response == "1"
    again = desk.write("a", "4")
    desk.timers.advance(0)
    assert again.response == "written"
    assert desk.notebook.pages == {"a": "4"}


def test_what_lives_in_memory_is_mended_newest_first() -> None:
    desk = Desk()
    mended: list[str] = []

    def operation(name: str) -> Any:
        return lambda state, now_ms: Result(
            "written", [(name, "x")], on_failure=lambda code: mended.append(f"{name} {ErrorCode(code).name}")
        )

    desk.log.hold = True
    desk.decide(operation("first"))
    desk.decide(operation("second"))
    desk.log.finish(ErrorCode.KAFKA_STORAGE_ERROR)
    assert mended == ["second NOT_COORDINATOR", "first NOT_COORDINATOR"]


def test_an_outcome_in_doubt_is_read_from_the_log() -> None:
    for lands in (True, False):
        desk = Desk()
        desk.log.hold = True
        call = desk.write("a", "1")
        desk.timers.advance(0)
        desk.log.finish(ErrorCode.NOT_LEADER_OR_FOLLOWER, lands=lands)
        assert call.response == "NOT_COORDINATOR"
        assert desk.notebook.pages == ({"a": "1"} if lands else {})


def test_an_append_that_raises_is_a_failed_append() -> None:
    desk = Desk()

    def refuse(*_: Any) -> Any:
        raise LogError(ErrorCode.KAFKA_STORAGE_ERROR)

    desk.log.append_records = refuse  # type: ignore[method-assign]
    call = desk.write("a", "1")
    desk.timers.advance(0)
    assert call.response == "NOT_COORDINATOR"
    assert desk.notebook.pages == {}


def test_a_bug_in_replay_costs_only_its_own_request() -> None:
    desk = Desk()
    kept = desk.write("a", "1")
    try:
        desk.decide(lambda state, now_ms: Result("written", [("b", "2"), ("c", "bug")]))
    except ValueError:
        pass
    else:
        raise AssertionError("the bug must be heard of")
    desk.timers.advance(0)
    assert kept.response == "written"
    assert desk.notebook.pages == {"a": "1"}


def test_a_batch_has_a_limit_and_a_large_result_goes_alone() -> None:
    desk = Desk()
    desk.log.hold = True
    most = "x" * (entry.BATCH_BYTES_MAX * 2 // 3)
    calls = [desk.write(key, value) for key, value in (("a", "1"), ("b", most), ("c", most), ("d", most * 3))]
    calls.append(desk.read("d"))
    while desk.log.in_flight:
        desk.log.finish()
    assert desk.log.batches == [1, 1, 1, 1]
    assert [call.response for call in calls] == ["written"] * 4 + [most * 3]


def test_loading_takes_the_last_value_of_every_key() -> None:
    desk = Desk()
    for key, value in (("a", "1"), ("b", "1"), ("a", "2"), ("b", None), ("c", "3"), ("a", "4")):
        desk.write(key, value)
    desk.timers.advance(0)
    desk.runtime = desk.make()
    desk.runtime.elected(0, 0)
    assert list(desk.notebook.pages.items()) == [("c", "3"), ("a", "4")]


def test_loading_goes_in_slices_and_refuses_meanwhile(monkeypatch: Any) -> None:
    desk = Desk()
    monkeypatch.setattr(loading, "LOAD_SLICE_RECORDS", 3)
    desk.log.records[0] = [(f"key {number}".encode(), b"v") for number in range(10)]
    desk.runtime = desk.make()
    desk.runtime.elected(0, 0)
    assert desk.runtime.loading() == [0]
    assert desk.read("key 1").response == "COORDINATOR_LOAD_IN_PROGRESS"
    desk.timers.advance(0)
    assert desk.runtime.loading() == []
    assert len(desk.notebook.pages) == 10


def test_loading_that_fails_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()

    def broken(topic: str, index: int, leader_epoch: int) -> Iterator[tuple[bytes | None, bytes | None]]:
        raise OSError("disk")
        yield

    working = desk.log.committed_records
    desk.log.committed_records = broken  # type: ignore[method-assign]
    desk.runtime = desk.make()
    desk.runtime.elected(0, 0)
    desk.timers.advance(loading.LOAD_RETRY_MS)
    assert [
        record.getMessage() for record in caplog.records if "cannot be loaded" in record.getMessage()
    ] == [f"{GROUP_OFFSETS_TOPIC}-0 cannot be loaded; trying again"]
    desk.log.committed_records = working  # type: ignore[method-assign]
    assert desk.read("a").response == "COORDINATOR_LOAD_IN_PROGRESS"
    desk.timers.advance(loading.LOAD_RETRY_MS)
    assert desk.read("a").response == "blank"


def test_deadlines_ring_and_write() -> None:
    desk = Desk()

    def operation(state: Notebook, now_ms: int) -> Result[str]:
        state.deadlines.set(("k", "", ""), now_ms + 50)
        return Result("set")

    assert desk.decide(operation).response == "set"
    desk.timers.advance(20)
    desk.decide(operation)
    desk.timers.advance(49)
    assert desk.notebook.pages == {}
    desk.timers.advance(1)
    assert desk.notebook.pages == {"k": "due at 70"}


def test_a_deadline_that_meets_a_bug_does_not_take_the_others_with_it() -> None:
    desk = Desk()
    due = desk.notebook.due

    def failing(key: Any, now_ms: int) -> Result[None]:
        if key[0] == "b":
            raise RuntimeError("a bug")
        return due(key, now_ms)

    desk.notebook.due = failing  # type: ignore[method-assign]
    for key, at_ms in (("a", 50), ("b", 50), ("c", 50), ("d", 90)):
        desk.notebook.deadlines.set((key, "", ""), at_ms)
    assert desk.read("a").response == "blank"
    desk.timers.advance(50)
    assert desk.notebook.pages == {"a": "due at 50", "c": "due at 50"}
    desk.timers.advance(40)
    assert desk.notebook.pages["d"] == "due at 90"


def test_a_shard_that_is_given_up_lets_nobody_wait() -> None:
    desk = Desk()
    desk.log.hold = True
    parked = LoopFree()
    desk.notebook.waiting.append(parked)
    desk.notebook.deadlines.set(("k", "", ""), 10)
    calls = [desk.write("a", "1"), desk.read("a")]
    desk.timers.advance(0)
    desk.runtime.resigned(0)
    assert [call.response for call in (*calls, parked)] == ["NOT_COORDINATOR"] * 3
    desk.log.finish()
    desk.timers.advance(100)
    assert desk.read("a").response == "NOT_COORDINATOR"
    assert desk.runtime.partitions() == []
