"""Batches of one producer that arrive while this broker learns that it leads: those that came too early were
refused, and those behind them must not be told of a gap (appending/lost_writes.py).

Seen with librdkafka and a stopped leader: it took a new epoch, and sent again what the old leader had
written and could not acknowledge any more.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from test_partition_roles import Broker, batch_of, copied, in_a_loop, state_of

from moldau.broker.log.log import AppendResult
from moldau.broker.metadata.changes import ConfigsChanged, replay
from moldau.broker.metadata.image import ResourceType
from moldau.broker.replication.leadership_check import LeadershipCheck
from moldau.common.protocol.errors import ErrorCode
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record


def numbered(sequence: int) -> memoryview:
    record = Record(0, 1_700_000_000_000, None, b"%d" % sequence, ())
    return memoryview(build_batch([record], producer_id=7, producer_epoch=0, base_sequence=sequence))


def sent(broker: Broker, sequence: int) -> AppendResult:
    return broker.partition.append(numbered(sequence), broker.clock.now_ms(), -1)


@in_a_loop
async def test_what_comes_behind_a_batch_that_came_too_early_is_sent_again(tmp_path: Path) -> None:
    first, second = Broker(tmp_path / "1", 1), Broker(tmp_path / "2", 2)
    for broker in (first, second):
        broker.become(state_of(1, 0))
    assert not sent(first, 0).error_code
    first.group_commit.flush()
    copied(first, second)
    for sequence in (0, 1, 2):  # the first two brokers' clients know before the second broker
        assert sent(second, sequence).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    second.become(state_of(2, 1))
    assert sent(second, 3).error_code == ErrorCode.KAFKA_STORAGE_ERROR, "no gap: 1 and 2 come again"
    repeated = sent(second, 0)
    assert (repeated.error_code, repeated.duplicate) == (0, True)
    for sequence in (1, 2, 3, 4):
        assert not sent(second, sequence).error_code
    second.group_commit.flush()
    assert second.values() == [b"0", b"1", b"2", b"3", b"4"]
    assert sent(second, 6).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "a gap that is one"


@in_a_loop
async def test_a_producer_that_is_not_known_yet_begins_with_what_was_refused(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "2", 2)
    broker.become(state_of(1, 0))
    assert sent(broker, 0).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.become(state_of(2, 1))
    assert sent(broker, 1).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert not sent(broker, 0).error_code
    assert not sent(broker, 1).error_code


@in_a_loop
async def test_the_same_when_too_few_replicas_are_in_sync_for_a_moment(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "1", 1)
    broker.become(state_of(1, 0))
    change = ConfigsChanged(ResourceType.TOPIC, "t", {"min.insync.replicas": "2"})
    old, broker.image = broker.image, replay(broker.image, broker.image.version + 1, [change])
    broker.replicas.apply(old, broker.image, [change])
    assert not sent(broker, 0).error_code
    broker.become(state_of(1, 0, 1))
    assert sent(broker, 1).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    broker.become(state_of(1, 0))
    assert sent(broker, 2).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert not sent(broker, 1).error_code
    assert not sent(broker, 2).error_code


@in_a_loop
async def test_what_is_no_batch_is_refused_as_before(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "2", 2)
    broker.become(state_of(1, 0))
    for bytes_sent in (b"", b"x" * 10, bytes(batch_of(b"no producer"))):
        refused = broker.partition.append(memoryview(bytes_sent), broker.clock.now_ms(), -1)
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@in_a_loop
async def test_who_may_be_deposed_speaks_of_no_gap(tmp_path: Path) -> None:
    """Its process stood still, the next leader has the batches before this one, and the producer comes back
    by an outdated look at the metadata (simulation, seed 100678)."""
    broker = Broker(tmp_path / "1", 1)
    broker.become(state_of(1, 0))
    answers: list[asyncio.Future[bool]] = []

    async def confirm() -> bool:
        answers.append(asyncio.get_running_loop().create_future())
        return await answers[-1]

    broker.replicas.leadership_check = LeadershipCheck(broker.clock.monotonic_ms, confirm)
    assert not sent(broker, 0).error_code
    for _ in range(3):
        assert sent(broker, 5).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await asyncio.sleep(0)
    (answer,) = answers
    answer.set_result(True)
    for _ in range(5):
        await asyncio.sleep(0)
    assert sent(broker, 5).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "it leads, and it is a gap"
    assert sent(broker, 7).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER, "another gap, not confirmed yet"
    assert not sent(broker, 1).error_code
