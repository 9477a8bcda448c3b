"""Transactions in the runtime: which results share a batch, and that all of them keep their order."""

from typing import Any

from test_runtime_shards import Desk, LoopFree, Notebook

from moldau.broker.coordinator.last_values import LastValues
from moldau.broker.coordinator.machine import EndedTransaction, Loaded, TransactionalRecord
from moldau.broker.coordinator.markers import Marker
from moldau.broker.coordinator.result import Producer, Result
from moldau.broker.coordinator.runtime import CoordinatorRuntime
from moldau.broker.metadata.image import GROUP_OFFSETS_TOPIC
from moldau.common.protocol.errors import ErrorCode


class Ledger(Notebook):
    """A notebook with pages that wait for a marker."""

    def __init__(self, partition: int, leader_epoch: int = 0) -> None:
        super().__init__(partition)
        self.pending: dict[int, tuple[tuple[str, str], ...]] = self.journal.dict()

    def replay_pending(self, record: tuple[str, str], producer: Producer) -> None:
        self.pending[producer.producer_id] = (*self.pending.get(producer.producer_id, ()), record)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        for record in self.pending.pop(producer_id, ()):
            if committed:
                self.replay(record)

    def load_pending(self, producer: Producer, key: bytes, value: bytes | None) -> None:
        if value is not None:
            self.replay_pending((key.decode(), value.decode()), producer)


class LedgerDesk(Desk):
    def make(self) -> CoordinatorRuntime[Notebook]:
        return CoordinatorRuntime(
            GROUP_OFFSETS_TOPIC, log=self.log, make_state=Ledger, clock=self.clock, timers=self.timers
        )

    def pend(self, key: str, value: str, producer_id: int) -> LoopFree:
        producer = Producer(producer_id, 0)
        return self.decide(lambda state, now_ms: Result("pending", [(key, value)], producer=producer))

    def end(self, producer_id: int, committed: bool = True) -> LoopFree:
        marker = Marker(producer_id, 0, 0, committed, 0)
        return self.decide(lambda state, now_ms: Result("ended", marker=marker))

    def rows(self) -> list[Loaded]:
        return self.log.records[0]


def pending(producer_id: int, key: bytes, value: bytes) -> TransactionalRecord:
    return TransactionalRecord(Producer(producer_id, 0), key, value)


def test_a_batch_belongs_to_one_producer_or_to_none_and_a_marker_stands_alone() -> None:
    desk = LedgerDesk()
    desk.log.hold = True
    desk.write("first", "1")
    calls = [
        desk.write("a", "1"),
        desk.write("b", "1"),
        desk.pend("a", "2", 7),
        desk.pend("b", "2", 7),
        desk.pend("c", "2", 8),
        desk.end(7),
        desk.end(7),
        desk.read("a"),
        desk.write("d", "3"),
    ]
    for count in range(7):
        assert len(desk.log.in_flight) == 1, "one append at a time"
        answered = sum(call.response is not None for call in calls)
        desk.log.finish()
        assert sum(call.response is not None for call in calls) >= answered
        assert count < 6 or not desk.log.in_flight
    assert [call.response for call in calls] == [
        *["written"] * 2,
        *["pending"] * 3,
        *["ended"] * 2,
        "2",
        "written",
    ]
    assert desk.log.batches == [1, 2, 2, 1, 0, 0, 1]
    assert desk.rows() == [
        (b"first", b"1"),
        (b"a", b"1"),
        (b"b", b"1"),
        pending(7, b"a", b"2"),
        pending(7, b"b", b"2"),
        pending(8, b"c", b"2"),
        EndedTransaction(7, True),
        EndedTransaction(7, True),
        (b"d", b"3"),
    ]


def test_a_failed_marker_takes_back_what_it_settled_and_what_came_after_it() -> None:
    desk = LedgerDesk()
    desk.write("a", "1")
    desk.pend("a", "2", 7)
    desk.timers.advance(0)
    desk.log.hold = True
    calls = [desk.end(7), desk.read("a"), desk.write("b", "1")]
    desk.log.finish(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    assert [call.response for call in calls] == [
        "TRANSACTION_COORDINATOR_FENCED",
        "COORDINATOR_NOT_AVAILABLE",
        "COORDINATOR_NOT_AVAILABLE",
    ]
    state: Any = desk.notebook
    assert (state.pages, state.pending) == ({"a": "1"}, {7: (("a", "2"),)})


def test_loading_gives_pending_records_to_the_machine() -> None:
    desk = LedgerDesk()
    desk.log.records[0] = [
        pending(7, b"a", b"1"),
        pending(8, b"b", b"1"),
        pending(9, b"c", b"1"),
        EndedTransaction(8, True),
        EndedTransaction(9, False),
        EndedTransaction(10, True),
        (b"d", b"1"),
    ]
    desk.runtime = desk.make()
    desk.runtime.elected(0, 0)
    state: Any = desk.notebook
    assert (state.pages, state.pending) == ({"b": "1", "d": "1"}, {7: (("a", "1"),)})


def gathered(*items: Loaded) -> tuple[dict[bytes, bytes], list[tuple[int, bytes, bytes | None]]]:
    gathering = LastValues()
    gathering.add(items)
    rows = [(producer.producer_id, key, value) for producer, key, value in gathering.pending()]
    return gathering.latest, rows


def test_the_record_that_stands_last_counts() -> None:
    assert gathered(pending(7, b"k", b"1"), (b"k", b"2"), EndedTransaction(7, True)) == ({b"k": b"2"}, [])
    both = [pending(7, b"k", b"1"), pending(8, b"k", b"2"), EndedTransaction(8, True)]
    assert gathered(*both) == ({b"k": b"2"}, [(7, b"k", None)])
    assert gathered(*both, EndedTransaction(7, True)) == ({b"k": b"2"}, [])
    again = [pending(7, b"k", b"1"), (b"k", b"2"), pending(7, b"k", b"3")]
    assert gathered(*again) == ({b"k": b"2"}, [(7, b"k", b"3")])
    assert gathered(*again, EndedTransaction(7, True)) == ({b"k": b"3"}, [])


def test_a_tombstone_takes_what_is_pending_before_it() -> None:
    items = [pending(7, b"k", b"1"), pending(7, b"l", b"1"), pending(8, b"k", b"1"), (b"k", None)]
    assert gathered(*items) == ({}, [(7, b"l", b"1")])
    assert gathered(*items, EndedTransaction(7, True), EndedTransaction(8, True)) == ({b"l": b"1"}, [])
