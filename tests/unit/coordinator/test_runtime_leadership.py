"""Leadership that comes and goes while something is on its way: everyone who waits is answered, once, and the
next leader epoch starts from the log."""

from typing import Any

import pytest
from pending_append import LogError, PendingAppend
from test_runtime_shards import Desk, LoopFree, Notebook

from moldau.broker.coordinator import loading
from moldau.broker.coordinator.result import Parked, ParkedAnswer, Result
from moldau.broker.coordinator.shard import COMMIT_TIMEOUT_MS
from moldau.common.protocol.errors import ErrorCode


class Transcript:
    """What a desk's callers hear, in order, as lines of text."""

    def __init__(self) -> None:
        self.desk = Desk()
        self.lines: list[str] = []

    def listen(self, name: str) -> "Listener":
        return Listener(name, self.lines)

    def write(self, name: str, key: str, value: str) -> None:
        self._decide(name, lambda state, now_ms: Result("written", [(key, value)]))

    def read(self, name: str, key: str) -> None:
        self._decide(name, lambda state, now_ms: Result(state.pages.get(key, "blank")))

    def park(self, name: str) -> None:
        """A caller who waits for another request."""
        caller = self.listen(name)

        def operation(state: Notebook, now_ms: int) -> Result[str]:
            state.waiting.append(caller)
            return Result()

        self.desk.runtime.decide(0, operation, lambda code: ErrorCode(code).name, caller)

    def release(self, name: str, key: str) -> None:
        """A write that answers all parked callers once it is committed."""

        def operation(state: Notebook, now_ms: int) -> Result[str]:
            answers = [ParkedAnswer(parked, "released") for parked in state.waiting]

            def failed(error_code: int) -> None:
                for parked, _ in answers:
                    parked.answer(ErrorCode(error_code).name)

            return Result("written", [(key, "x")], answers, on_failure=failed)

        self._decide(name, operation)

    def _decide(self, name: str, operation: Any) -> None:
        caller = self.listen(name)
        direct = self.desk.runtime.decide(0, operation, lambda code: ErrorCode(code).name, caller)
        if direct is not None:
            caller.answer(direct)  # type: ignore[arg-type]

    def heard(self) -> list[str]:
        """The lines since the last call."""
        lines = list(self.lines)
        self.lines.clear()
        return lines


class Listener(LoopFree):
    def __init__(self, name: str, lines: list[str]) -> None:
        super().__init__()
        self._name = name
        self._lines = lines

    def answer(self, response: str) -> None:
        if self.response is None:
            self._lines.append(f"{self._name}: {response}")
        Parked.answer(self, response)


def test_leadership_is_lost_with_an_append_on_its_way_and_callers_parked() -> None:
    for lands in (True, False):
        it = Transcript()
        it.desk.log.hold = True
        it.park("member")
        it.write("in flight", "a", "1")
        it.desk.timers.advance(0)
        it.write("queued", "b", "1")
        it.read("reader behind both", "a")
        it.release("releases the member", "c")
        assert it.heard() == []

        it.desk.runtime.resigned(0)
        assert it.heard() == [
            "member: NOT_COORDINATOR",
            "in flight: NOT_COORDINATOR",
            "queued: NOT_COORDINATOR",
            "reader behind both: NOT_COORDINATOR",
            "releases the member: NOT_COORDINATOR",
        ]
        it.read("late", "a")
        assert it.heard() == ["late: NOT_COORDINATOR"]

        it.desk.log.finish(lands=lands)
        assert it.heard() == [], "the outcome comes too late for everybody"
        assert not it.desk.log.in_flight, "and nothing is appended after it"

        it.desk.runtime.elected(0, 1)
        it.read("again", "a")
        assert it.heard() == ["again: 1" if lands else "again: blank"]


def test_a_later_epoch_loads_the_shard_again_though_nobody_resigned() -> None:
    it = Transcript()
    it.write("ours", "a", "1")
    it.desk.timers.advance(0)
    assert it.heard() == ["ours: written"]
    it.desk.log.hold = True
    it.write("in flight", "a", "2")
    it.desk.timers.advance(0)
    it.desk.log.records[0] += [(b"a", b"of the leader in between")]

    for epoch in (0, -1):
        it.desk.runtime.elected(0, epoch)
        assert it.heard() == [], "known already, or outdated"
    it.desk.runtime.elected(0, 2)
    assert it.heard() == ["in flight: NOT_COORDINATOR"]
    it.desk.log.finish(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    it.read("reader", "a")
    assert it.heard() == ["reader: of the leader in between"]


def test_an_append_that_finds_leadership_lost_answers_everyone_and_loads_again() -> None:
    it = Transcript()
    it.desk.log.hold = True
    it.park("member")
    it.write("in flight", "a", "1")
    it.desk.timers.advance(0)
    it.write("queued", "b", "1")

    def refuse(topic: str, index: int, leader_epoch: int) -> Any:
        raise LogError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    working = it.desk.log.committed_records
    it.desk.log.committed_records = refuse  # type: ignore[method-assign]
    it.desk.log.finish(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert it.heard() == ["in flight: NOT_COORDINATOR", "queued: NOT_COORDINATOR", "member: NOT_COORDINATOR"]
    it.read("while the metadata is late", "a")
    assert it.heard() == ["while the metadata is late: COORDINATOR_LOAD_IN_PROGRESS"]

    it.desk.runtime.resigned(0)
    it.desk.log.committed_records = working  # type: ignore[method-assign]
    it.desk.timers.advance(loading.LOAD_RETRY_MS)
    it.read("afterwards", "a")
    assert it.heard() == ["afterwards: NOT_COORDINATOR"], "the load is not tried again"
    assert it.desk.runtime.partitions() == []


def test_leadership_is_lost_while_the_shard_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "LOAD_SLICE_RECORDS", 3)
    it = Transcript()
    it.desk.log.records[0] = [(f"key {number}".encode(), b"old") for number in range(10)]
    it.desk.runtime = it.desk.make()
    it.desk.runtime.elected(0, 0)
    it.read("first", "key 1")
    it.desk.runtime.resigned(0)
    it.read("second", "key 1")
    it.desk.timers.advance(0)
    it.read("third", "key 1")
    assert it.heard() == [
        "first: COORDINATOR_LOAD_IN_PROGRESS",
        "second: NOT_COORDINATOR",
        "third: NOT_COORDINATOR",
    ]

    it.desk.runtime.elected(0, 1)
    it.desk.log.records[0] = [(b"key 1", b"new")]
    it.desk.runtime.elected(0, 2)  # in the middle of the load for epoch 1, which must not go on
    it.desk.timers.advance(0)
    it.read("fourth", "key 1")
    it.read("fifth", "key 2")
    assert it.heard() == ["fourth: new", "fifth: blank"]


def test_the_broker_stops_while_callers_wait() -> None:
    it = Transcript()
    it.desk.log.hold = True
    it.park("member")
    it.write("in flight", "a", "1")
    it.desk.timers.advance(0)
    it.desk.runtime.stop()
    assert it.heard() == ["in flight: COORDINATOR_NOT_AVAILABLE", "member: COORDINATOR_NOT_AVAILABLE"]


def test_an_append_in_another_epoch_than_the_partition_has_is_refused_and_the_shard_loaded_again() -> None:
    """The partition follows the metadata before the coordinator does: in between, the broker may lead it in a
    later epoch, with records of another leader that the shard has not seen."""
    it = Transcript()
    it.write("ours", "a", "1")
    it.desk.timers.advance(0)
    it.desk.log.records[0] += [(b"a", b"of the leader in between")]
    it.desk.log.leader_epoch = 2
    it.write("on what is outdated", "b", "1")
    it.desk.timers.advance(0)
    assert it.heard() == ["ours: written", "on what is outdated: NOT_COORDINATOR"]
    it.desk.runtime.elected(0, 2)
    it.read("reader", "a")
    it.read("the other", "b")
    it.write("again", "b", "2")
    it.desk.timers.advance(0)
    assert it.heard() == ["reader: of the leader in between", "the other: blank", "again: written"]


def test_a_new_leader_waits_until_what_the_last_one_wrote_is_committed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    it = Transcript()
    committed = it.desk.log.committed_records
    acknowledged = [(b"a", b"acknowledged by the last leader")]

    waits: list[PendingAppend] = []

    def not_yet(topic: str, index: int, leader_epoch: int) -> Any:
        raise LogError(ErrorCode.OFFSET_NOT_AVAILABLE)

    def all_committed(topic: str, index: int, leader_epoch: int) -> PendingAppend:
        waits.append(PendingAppend(lambda: None))
        return waits[-1]

    it.desk.log.committed_records = not_yet  # type: ignore[method-assign]
    it.desk.log.all_committed = all_committed  # type: ignore[attr-defined]
    it.desk.runtime.elected(0, 1)
    it.read("early", "a")
    it.desk.timers.advance(60_000)
    it.read("still early", "a")
    assert len(waits) == 1, "it waits for the event, and does not ask again and again"
    it.desk.log.records[0] = list(acknowledged)
    it.desk.log.committed_records = committed  # type: ignore[method-assign]
    waits[0].finish()
    it.desk.timers.advance(0)
    it.read("in time", "a")
    assert it.heard() == [
        "early: COORDINATOR_LOAD_IN_PROGRESS",
        "still early: COORDINATOR_LOAD_IN_PROGRESS",
        "in time: acknowledged by the last leader",
    ]
    assert not caplog.records, "nothing is wrong"


def test_who_resigns_while_it_waits_to_load_never_serves_and_the_next_epoch_waits_for_itself() -> None:
    it = Transcript()
    waits: list[PendingAppend] = []
    committed = it.desk.log.committed_records
    ready = [False]

    def committed_records(topic: str, index: int, leader_epoch: int) -> Any:
        if not ready[0]:
            raise LogError(ErrorCode.OFFSET_NOT_AVAILABLE)
        return committed(topic, index, leader_epoch)

    def all_committed(topic: str, index: int, leader_epoch: int) -> PendingAppend:
        waits.append(PendingAppend(lambda: None))
        return waits[-1]

    it.desk.log.committed_records = committed_records  # type: ignore[method-assign]
    it.desk.log.all_committed = all_committed  # type: ignore[attr-defined]
    it.desk.runtime.elected(0, 1)
    it.desk.runtime.resigned(0)
    ready[0] = True
    waits[0].finish()
    it.desk.timers.advance(10_000)
    it.read("of a broker that leads no longer", "a")
    ready[0] = False
    it.desk.runtime.elected(0, 3)
    waits[1].finish(ErrorCode.KAFKA_STORAGE_ERROR)
    it.read("while it fails", "a")
    it.desk.timers.advance(loading.LOAD_RETRY_MS - 1)
    assert len(waits) == 2
    ready[0] = True
    it.desk.timers.advance(1)
    it.read("at last", "a")
    assert it.heard() == [
        "of a broker that leads no longer: NOT_COORDINATOR",
        "while it fails: COORDINATOR_LOAD_IN_PROGRESS",
        "at last: blank",
    ]


def test_a_coordinator_whose_appends_are_never_committed_refuses_its_callers_in_time() -> None:
    """Another broker leads, and this one has not heard of it: nothing it appends is fetched by followers."""
    it = Transcript()
    it.desk.log.hold = True
    it.park("member")
    it.write("in flight", "a", "1")
    it.desk.timers.advance(0)
    it.write("queued", "b", "1")
    it.read("reader behind both", "a")
    it.desk.timers.advance(COMMIT_TIMEOUT_MS - 1)
    it.write("later", "c", "1")
    assert it.heard() == []
    it.desk.timers.advance(1)
    refused = [f"{who}: COORDINATOR_NOT_AVAILABLE" for who in ("in flight", "queued", "reader behind both")]
    assert it.heard() == refused, "who waits for another client is its own patience's business"
    it.desk.timers.advance(2 * COMMIT_TIMEOUT_MS)
    assert it.heard() == ["later: COORDINATOR_NOT_AVAILABLE"]

    it.desk.log.finish()
    it.desk.timers.advance(0)
    it.desk.log.finish()
    it.read("the replicas were only slow", "b")
    assert it.heard() == ["the replicas were only slow: 1"], "and nobody is answered twice"
    it.desk.timers.advance(2 * COMMIT_TIMEOUT_MS)
    assert not it.desk.timers.waiting_count, "nothing to watch: no timer"
