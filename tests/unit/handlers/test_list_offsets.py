"""ListOffsets: rows that repeat, rows by the thousand, batches that unpack to far more than they are."""

import asyncio
import threading
from collections.abc import Awaitable
from pathlib import Path

import pytest
from data_plane_world import on_a_node, partition_of

from moldau.broker.handlers.apis.fetch.list_offsets import list_offsets
from moldau.broker.handlers.parts.broker import RequestContext
from moldau.broker.handlers.parts.session import Session
from moldau.broker.log.reading import record_search, timestamps
from moldau.broker.node import Node
from moldau.common.core.slow_lane import SlowLane
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from moldau.common.records import unpack_budget, walk
from moldau.common.records.batch import MAX_TIMESTAMP, MAX_TIMESTAMP_OFFSET, seal
from moldau.common.records.builder import build_batch
from moldau.common.records.compression import SMALL_BYTES_MAX
from moldau.common.records.record import Record

BASE_MS = 1_700_000_000_000


def bomb(count: int = 200_000, claimed_ms: int = BASE_MS) -> bytearray:
    """Records of nothing, all of one time; a header that claims `claimed_ms` for the youngest."""
    data = bytearray(
        build_batch([Record(each, BASE_MS, None, None, ()) for each in range(count)], compression="zstd")
    )
    MAX_TIMESTAMP.pack_into(data, MAX_TIMESTAMP_OFFSET, claimed_ms)
    seal(data)
    return data


def store(node: Node, *batches: bytes | bytearray, topic: str = "a") -> None:
    """As a leader stores them that does not look at records."""
    partition = partition_of(node, topic)
    partition.log.reconfigure(partition.log.settings.replace(moldau_records_check=False))
    for each in batches:
        result = partition.append(memoryview(each), BASE_MS, -1)
        assert not result.error_code, result.error_message
    node.group_commit.flush()


def request(*rows: tuple[str, int, int]) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(
                name=topic, partitions=[ListOffsetsPartition(partition_index=index, timestamp=timestamp)]
            )
            for topic, index, timestamp in rows
        ]
    )


async def ask(
    node: Node, asked: ListOffsetsRequest, version: int = 11
) -> dict[tuple[str, int], ListOffsetsPartitionResponse]:
    """The rows of the answer, of which no two are for the same partition."""
    answer = list_offsets(node.broker, RequestContext(version, 1, Session("PLAINTEXT")), asked)
    if isinstance(answer, Awaitable):
        answer = await answer
    assert isinstance(answer, ListOffsetsResponse)
    rows = [((topic.name, row.partition_index), row) for topic in answer.topics for row in topic.partitions]
    assert len(dict(rows)) == len(rows)
    assert all(topic.partitions for topic in answer.topics)
    return dict(rows)


class Unpackings:
    """Every unpacking of a batch: by the loop's thread or not, and within which bound."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[bool, int]] = []
        original, loop_thread = record_search.unpacked, threading.get_ident()

        def unpacked(codec: int, data: walk.Readable, size_max: int):  # type: ignore[no-untyped-def]
            self.seen.append((threading.get_ident() == loop_thread, size_max))
            return original(codec, data, size_max)

        monkeypatch.setattr(record_search, "unpacked", unpacked)


def test_a_partition_that_is_named_twice_has_one_row_and_no_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(node: Node) -> None:
        store(node, bomb())
        unpackings = Unpackings(monkeypatch)
        rows = await ask(node, request(*[("a", 0, BASE_MS)] * 10, ("a", 1, -1), ("b", 0, -2)))
        assert rows["a", 0].error_code == ErrorCode.INVALID_REQUEST
        assert (rows["a", 1].error_code, rows["b", 0].error_code) == (0, 0)
        rows = await ask(node, request(("a", 0, -1), ("b", 0, -1), ("a", 0, -2)))
        assert rows["a", 0].error_code == ErrorCode.INVALID_REQUEST
        assert rows["b", 0].error_code == 0
        assert not unpackings.seen

    on_a_node(scene, tmp_path)


@pytest.mark.parametrize(
    ("timestamp", "since"), [(-1, 1), (-2, 1), (-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 12)]
)
def test_what_a_negative_time_asks_for_depends_on_the_version(
    tmp_path: Path, timestamp: int, since: int
) -> None:
    async def scene(node: Node) -> None:
        for version in range(1, 12):
            row = (await ask(node, request(("a", 0, timestamp)), version))["a", 0]
            refused = row.error_code == ErrorCode.UNSUPPORTED_VERSION
            assert refused == (version < since), version
            assert not refused or (row.timestamp, row.offset) == (-1, -1)

    on_a_node(scene, tmp_path)


def test_a_large_batch_is_looked_into_beside_the_loop_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(node: Node) -> None:
        store(node, bomb(), bomb())
        unpackings = Unpackings(monkeypatch)
        row = (await ask(node, request(("a", 0, BASE_MS))))["a", 0]
        assert (row.error_code, row.timestamp, row.offset, row.leader_epoch) == (0, BASE_MS, 0, 0)
        assert [on_loop for on_loop, _ in unpackings.seen] == [False]
        row = (await ask(node, request(("a", 0, -3))))["a", 0]
        assert (row.error_code, row.timestamp, row.offset) == (0, BASE_MS, 0)

    on_a_node(scene, tmp_path)


def test_a_small_batch_that_unpacks_to_much_is_given_up_on_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(node: Node) -> None:
        records = [Record(each, BASE_MS, None, bytes(100_000), ()) for each in range(5)]
        store(node, build_batch(records, compression="zstd"))
        unpackings = Unpackings(monkeypatch)
        row = (await ask(node, request(("a", 0, BASE_MS))))["a", 0]
        assert (row.error_code, row.offset) == (0, 0)
        (first, bound), (second, _) = unpackings.seen
        assert (first, bound, second) == (True, SMALL_BYTES_MAX, False)

    on_a_node(scene, tmp_path)


def test_headers_that_lie_cannot_have_more_unpacked_than_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every header says that the wanted record is here, and no batch holds it."""

    async def scene(node: Node) -> None:
        liar = bomb(claimed_ms=BASE_MS + 1000)
        store(node, *[liar] * 20)
        monkeypatch.setattr(unpack_budget, "REQUEST_BYTES_MAX", 5_000_000)
        monkeypatch.setattr(unpack_budget.UnpackBudget.__init__, "__defaults__", (5_000_000, 1 << 24))
        unpackings = Unpackings(monkeypatch)
        row = (await ask(node, request(("a", 0, BASE_MS + 500))))["a", 0]
        # The first that could not be looked into is the answer: no record behind it is missed.
        assert (row.error_code, row.timestamp) == (0, BASE_MS + 1000)
        assert row.offset % 200_000 == 0
        assert 0 < row.offset < 20 * 200_000
        assert 1 < len(unpackings.seen) <= 4
        assert not any(on_loop for on_loop, _ in unpackings.seen)

    on_a_node(scene, tmp_path)


def test_thousands_of_rows_are_answered_in_slices(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        node.broker.slow_lane = SlowLane(0.0)  # each look at the clock finds the slice spent
        waits = 0
        wait = node.broker.slow_lane.wait

        async def counted() -> None:
            nonlocal waits
            waits += 1
            await wait()

        node.broker.slow_lane.wait = counted  # type: ignore[method-assign]
        rows = await ask(node, request(*[("nowhere", index, -1) for index in range(4000)]))
        assert len(rows) == 4000
        assert {row.error_code for row in rows.values()} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert waits >= 2 * 4000 // 16
        asked = request(*[("a", 0, -1)] * 4000)
        assert list(await ask(node, asked)) == [("a", 0)]

    on_a_node(scene, tmp_path)


def test_a_partition_that_is_deleted_during_its_search_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(node: Node) -> None:
        store(node, bomb())
        looked = timestamps.look_into_if_likely
        loop = asyncio.get_running_loop()

        def slowly(*arguments):  # type: ignore[no-untyped-def]
            deletion = asyncio.run_coroutine_threadsafe(
                node.controller.delete_topics([("a", bytes(16))]), loop
            )
            deletion.result(10)
            return looked(*arguments)

        monkeypatch.setattr("moldau.broker.handlers.apis.fetch.time_search.look_into_if_likely", slowly)
        row = (await ask(node, request(("a", 0, BASE_MS))))["a", 0]
        assert (row.error_code, row.offset) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)

    on_a_node(scene, tmp_path)


def test_a_search_whose_segments_are_removed_meanwhile_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(node: Node) -> None:
        store(node, bomb(claimed_ms=BASE_MS + 1000))
        log = partition_of(node, "a").log
        log.writer.roll(BASE_MS)
        store(node, build_batch([Record(0, BASE_MS + 500, None, b"wanted", ())]))
        looked = timestamps.look_into_if_likely
        loop = asyncio.get_running_loop()
        searches = 0

        def slowly(*arguments):  # type: ignore[no-untyped-def]
            nonlocal searches
            searches += 1
            removed = threading.Event()

            def remove() -> None:
                log.increment_log_start_offset(200_000)
                assert log.apply_retention(BASE_MS, 200_001)
                removed.set()

            loop.call_soon_threadsafe(remove)
            assert removed.wait(10)
            return looked(*arguments)

        monkeypatch.setattr("moldau.broker.handlers.apis.fetch.time_search.look_into_if_likely", slowly)
        row = (await ask(node, request(("a", 0, BASE_MS + 500))))["a", 0]
        assert (row.error_code, row.timestamp, row.offset) == (0, BASE_MS + 500, 200_000)
        assert searches == 1

    on_a_node(scene, tmp_path)


def test_a_walk_over_many_headers_pauses(tmp_path: Path) -> None:
    """An open transaction's end may lie far behind the youngest record that is decided."""

    async def scene(node: Node) -> None:
        one = build_batch([Record(0, BASE_MS, None, b"x", ())])
        store(node, *[one] * 1000, build_batch([Record(0, BASE_MS + 1, None, b"x", ())]))
        log = partition_of(node, "a").log
        steps = list(log.max_timestamp(1000))
        assert sum(step is None for step in steps) >= 1000 // timestamps.HEADERS_A_STEP
        assert timestamps.run(log.max_timestamp(1000)) == (BASE_MS, 0, 0)

    on_a_node(scene, tmp_path)


def test_a_search_that_ends_in_append_time_batches_knows_their_time(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        log = partition_of(node, "a").log
        log.reconfigure(log.settings.replace(message_timestamp_type="LogAppendTime"))
        data = build_batch([Record(each, 5, None, b"x", ()) for each in range(3)])
        store(node, data)
        assert timestamps.run(log.offset_for_timestamp(BASE_MS - 5, 3)) == (BASE_MS, 0, 0)
        log.increment_log_start_offset(2)
        assert timestamps.run(log.offset_for_timestamp(BASE_MS - 5, 3)) == (BASE_MS, 2, 0)
        assert timestamps.run(log.offset_for_timestamp(BASE_MS + 5, 3)) is None

    on_a_node(scene, tmp_path)


def test_a_follower_is_told_where_the_log_ends_and_others_what_is_committed(tmp_path: Path) -> None:
    """A follower that must begin anew asks for it; to have it wait for what only its fetches commit would be
    for ever."""

    async def scene(node: Node) -> None:
        partition = partition_of(node, "a")
        store(node, build_batch([Record(0, BASE_MS, None, b"x", ())]))
        state = node.metadata.image.topics["a"].partitions[0]
        replicas = (node.node_id, 7)
        later = state._replace(leader_epoch=5, partition_epoch=5, replicas=replicas, isr=replicas)
        partition.become(later)
        store(node, build_batch([Record(0, BASE_MS + 1, None, b"y", ())]))
        for replica_id, told in ((-1, (0, 1)), (7, (0, 2)), (8, (0, 1)), (node.node_id, (0, 1))):
            asked = request(("a", 0, -1))
            asked.replica_id = replica_id
            row = (await ask(node, asked))["a", 0]
            assert (row.error_code, row.offset) == told
        partition.become(later._replace(leader_epoch=6, partition_epoch=6))  # which begins at 2
        for replica_id, told in ((-1, (ErrorCode.OFFSET_NOT_AVAILABLE, -1)), (7, (0, 2))):
            for timestamp in (-1, BASE_MS + 1):
                asked = request(("a", 0, timestamp))
                asked.replica_id = replica_id
                row = (await ask(node, asked))["a", 0]
                assert (row.error_code, row.offset) == (told if timestamp < 0 or told[0] else (0, 1))

    on_a_node(scene, tmp_path)
