"""Produce requests that take longer than a slice of the loop: batches whose records must all be looked at,
rows by the hundred. Order, errors, what happens meanwhile, and that the loop is not held.
"""

import asyncio
import random
import struct
import threading
from collections.abc import Awaitable, Callable, Container
from functools import partial
from mmap import mmap
from pathlib import Path

import pytest
from data_plane_world import Client, led_by, on_a_node, partition_of, partition_rows
from jumping_time import idle, settled, until

from moldau.broker.handlers.apis.produce import produce_later
from moldau.broker.handlers.apis.transactions.transaction_verifier import Codes, Question
from moldau.broker.log.appending.inspection import Inspection
from moldau.broker.node import Node
from moldau.common.core.slow_lane import SlowLane
from moldau.common.core.waiting import Answer
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.hot_produce import ManyRows, decode_produce
from moldau.common.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from moldau.common.protocol.wire import uvarint
from moldau.common.records import unpack_budget
from moldau.common.records.batch import iter_batches
from moldau.common.records.builder import build_batch
from moldau.common.records.control import ControlType, EndTransactionMarker
from moldau.common.records.record import Record

KEY = b"k"


def batch(
    count: int,
    *,
    keyless: Container[int] = (),
    value: bytes | None = None,
    codec: str = "zstd",
    **producer: object,
) -> bytes:
    records = [
        Record(index, 1_700_000_000_000, None if index in keyless else KEY, value, ())
        for index in range(count)
    ]
    return build_batch(records, compression=codec, **producer)  # type: ignore[arg-type]


LONG = batch(60_000)
SHORT = batch(1, value=b"short", codec="none")


def frame(
    *rows: tuple[str, int, bytes | None],
    version: int = 9,
    acks: int = -1,
    transactional_id: str | None = None,
) -> bytes:
    topics = [
        TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=index, records=records)])
        for topic, index, records in rows
    ]
    body = ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=1000, topic_data=topics
    ).encode(version)
    header = struct.pack(">hhih", 0, version, 1, 4) + b"load" + b"\0" * (version >= 9)
    return struct.pack(">i", len(header) + len(body)) + header + body


async def answered(client: Client, count: int = 1) -> list[PartitionProduceResponse]:
    """The rows of the first answers, once so many have come."""
    await until(lambda: len(client.answers()) >= count)
    return [row for each in client.answers() for row in partition_rows(each)]


def compacted(node: Node, *topics: str) -> None:
    for topic in topics:
        for index in range(2):
            log = partition_of(node, topic, index).log
            log.reconfigure(log.settings.replace(cleanup_policy=("compact",)))


def values(node: Node, topic: str, index: int = 0) -> list[int]:
    """The counts of the batches that the partition holds."""
    log = partition_of(node, topic, index).log
    data = log.reader.read(0, 1 << 20, end_offset=log.written_end_offset) if log.written_end_offset else b""
    return [each.count for each in iter_batches(data)]


class Held:
    """Inspections stop in their thread until they are let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, method: str = "run_likely") -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.threads: list[int] = []
        run = getattr(Inspection, method)

        def held(inspection: Inspection, budget: unpack_budget.UnpackBudget) -> None:
            self.threads.append(threading.get_ident())
            self.begun.set()
            assert self.go.wait(10)
            run(inspection, budget)

        monkeypatch.setattr(Inspection, method, held)

    async def reached(self) -> None:
        assert await asyncio.to_thread(self.begun.wait, 10)


def on_a_compacted_node(scene: Callable[[Node, Client], Awaitable[None]], folder: Path, **texts: str) -> None:
    async def with_topics(node: Node) -> None:
        compacted(node, "a", "b")
        await scene(node, Client(node))

    on_a_node(with_topics, folder, **texts)


def test_many_records_are_looked_at_beside_the_loop_and_only_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    short: list[int] = []
    run_short = Inspection.run_short
    monkeypatch.setattr(
        Inspection,
        "run_short",
        lambda inspection: (short.append(inspection._view.count), run_short(inspection))[1],
    )

    async def scene(node: Node, client: Client) -> None:
        client.feed(frame(("a", 0, LONG)))
        await held.reached()
        other = Client(node)
        other.feed(frame(("a", 0, SHORT)))
        assert [row.base_offset for row in await answered(other)] == [0]  # nobody else waits
        held.go.set()
        (row,) = await answered(client)
        assert (row.error_code, row.base_offset) == (0, 1)
        assert held.threads
        assert threading.get_ident() not in held.threads
        assert short == [1]
        assert values(node, "a") == [1, 60_000]

    on_a_compacted_node(scene, tmp_path)


@pytest.mark.parametrize("durability", ["os", "group"])
def test_the_connection_s_next_requests_keep_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: str
) -> None:
    held = Held(monkeypatch)

    async def scene(node: Node, client: Client) -> None:
        producer = {"producer_id": 7, "producer_epoch": 0}
        first = batch(60_000, base_sequence=0, **producer)
        second = batch(2, base_sequence=60_000, **producer)
        third = batch(70_000, base_sequence=60_002, **producer)
        again = batch(60_000, base_sequence=0, **producer)
        client.feed(b"".join(frame(("a", 0, each)) for each in (first, second, third, again)))
        await held.reached()
        await idle()
        assert not client.answers()
        held.go.set()
        rows = await answered(client, 4)
        assert [(row.error_code, row.base_offset) for row in rows] == [
            (0, 0),
            (0, 60_000),
            (0, 60_002),
            (0, 0),
        ]
        assert values(node, "a") == [60_000, 2, 70_000]
        assert client.connection.held == 0
        assert not produce_later._running

    on_a_compacted_node(scene, tmp_path, moldau_durability=durability)


def test_a_request_s_rows_keep_their_places(tmp_path: Path) -> None:
    async def scene(node: Node, client: Client) -> None:
        keyless = batch(60_000, keyless=(5,))
        rows = [("a", 0, SHORT), ("a", 1, LONG), ("b", 0, keyless), ("nowhere", 0, SHORT), ("b", 1, SHORT)]
        client.feed(frame(*rows))
        found = [(row.error_code, row.base_offset) for row in await answered(client)]
        assert found == [
            (0, 0),
            (0, 0),
            (ErrorCode.INVALID_RECORD, -1),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
            (0, 0),
        ]

    on_a_compacted_node(scene, tmp_path)


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("count", [10, 60_000])
@pytest.mark.parametrize("version", [5, 8, 9])
def test_the_answer_names_the_records_at_fault(tmp_path: Path, codec: str, count: int, version: int) -> None:
    async def scene(node: Node, client: Client) -> None:
        log = partition_of(node, "a").log
        log.reconfigure(log.settings.replace(max_message_bytes=10_000_000))
        client.feed(frame(("a", 0, batch(count, keyless=(3, 7), codec=codec)), version=version))
        sent = client.transport.sent
        await until(lambda: sent)
        (size,) = struct.unpack_from(">i", sent)
        answer = ProduceResponse.decode(bytes(sent[8 + (version >= 9) : 4 + size]), version)
        (row,) = partition_rows(answer)
        assert (row.error_code, row.base_offset) == (ErrorCode.INVALID_RECORD, -1)
        if version < 8:
            assert (row.record_errors, row.error_message) == ([], None)
            return
        assert [each.batch_index for each in row.record_errors] == [3, 7]
        assert all("key" in each.batch_index_error_message for each in row.record_errors)
        assert "record 3" in row.error_message

    on_a_compacted_node(scene, tmp_path)


def test_a_repeated_request_names_the_records_at_fault_too(tmp_path: Path) -> None:
    async def scene(node: Node, client: Client) -> None:
        for _ in range(2):
            client.feed(frame(("a", 0, batch(10))))
            await settled()
        assert client.connection.shortcut is not None
        client.feed(frame(("a", 0, batch(10, keyless=(9,)))))
        row = (await answered(client, 3))[-1]
        assert [each.batch_index for each in row.record_errors] == [9]
        client.feed(frame(("a", 0, LONG)))
        row = (await answered(client, 4))[-1]
        assert (row.error_code, row.base_offset) == (0, 20)

    on_a_compacted_node(scene, tmp_path)


def test_an_answer_names_no_more_records_than_it_has_room_for(tmp_path: Path) -> None:
    async def scene(node: Node, client: Client) -> None:
        culprit = batch(60_000, keyless=range(60_000))
        client.feed(frame(*[("a", index % 2, culprit) for index in range(15)]))
        rows = await answered(client)
        assert [len(row.record_errors) for row in rows] == [100] * 10 + [0] * 5
        assert {row.error_code for row in rows} == {ErrorCode.INVALID_RECORD}
        assert all("100 or more" in row.error_message for row in rows)
        assert len(client.transport.sent) < 100_000

    on_a_compacted_node(scene, tmp_path)


def test_one_request_has_one_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack_budget.UnpackBudget.__init__, "__defaults__", (1_000_000, 1 << 24))

    async def scene(node: Node, client: Client) -> None:
        client.feed(frame(*[("a", 0, LONG)] * 4, ("b", 0, SHORT)))  # each unpacks to half a megabyte
        rows = await answered(client)
        assert [row.error_code for row in rows[:2]] == [0, ErrorCode.MESSAGE_TOO_LARGE]
        assert rows[-1].error_code == 0
        client.feed(frame(("a", 0, LONG)))
        assert (await answered(client, 2))[-1].error_code == 0
        monkeypatch.setattr(unpack_budget.UnpackBudget.__init__, "__defaults__", (1 << 30, 100_000))
        client.feed(frame(*[("b", 1, LONG)] * 3))
        codes = [row.error_code for row in (await answered(client, 3))[-3:]]
        assert codes == [0, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.MESSAGE_TOO_LARGE]

    on_a_compacted_node(scene, tmp_path)


def test_a_deleted_partition_is_unknown_once_its_batch_is_inspected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)

    async def scene(node: Node, client: Client) -> None:
        client.feed(frame(("a", 0, LONG), ("b", 0, SHORT)))
        await held.reached()
        await node.controller.delete_topics([("a", bytes(16))])
        await node.controller.auto_create_topics(["a"])  # another topic of that name
        held.go.set()
        rows = await answered(client)
        assert [row.error_code for row in rows] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
        assert partition_of(node, "a").log.log_end_offset == 0

    on_a_compacted_node(scene, tmp_path)


def test_a_partition_that_lost_its_leader_or_its_disk_meanwhile_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)

    async def scene(node: Node, client: Client) -> None:
        client.feed(frame(("a", 0, LONG)))
        await held.reached()
        led_by(node, 99, "a")
        held.go.set()
        assert (await answered(client))[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        held.go.clear()
        held.begun.clear()
        client.feed(frame(("b", 0, LONG)))
        await held.reached()
        partition_of(node, "b").log.go_offline()
        held.go.set()
        assert (await answered(client, 2))[1].error_code == ErrorCode.KAFKA_STORAGE_ERROR

    on_a_compacted_node(scene, tmp_path)


def test_a_lost_connection_takes_its_unfinished_rows_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)

    async def scene(node: Node, client: Client) -> None:
        client.feed(frame(("b", 0, SHORT), ("a", 0, LONG), ("b", 1, SHORT)))
        await held.reached()
        client.connection.connection_lost(None)
        held.go.set()
        other = Client(node)
        other.feed(frame(("a", 0, LONG)))
        assert (await answered(other))[0].base_offset == 0
        ends = [partition_of(node, topic, index).log.log_end_offset for topic, index in (("b", 0), ("b", 1))]
        assert ends == [1, 0]
        assert values(node, "a") == [60_000]
        assert not produce_later._running
        assert not partition_of(node, "b").waiting_count

    on_a_compacted_node(scene, tmp_path)


def test_a_stop_does_not_wait_for_what_is_put_off(tmp_path: Path) -> None:
    async def scene(node: Node, client: Client) -> None:
        client.feed(frame(*[("a", 0, LONG)] * 50))
        await asyncio.sleep(0)

    on_a_compacted_node(scene, tmp_path)
    assert not produce_later._running


def test_without_acks_the_connection_ends_when_a_row_put_off_fails(tmp_path: Path) -> None:
    async def scene(node: Node, client: Client) -> None:
        client.feed(frame(("a", 0, LONG), acks=0))
        client.feed(frame(("a", 1, SHORT)))
        (row,) = await answered(client)
        assert (row.error_code, values(node, "a")) == (0, [60_000])
        client.feed(frame(("a", 0, batch(60_000, keyless=(1,))), acks=0))
        await until(lambda: client.transport.closed)

    on_a_compacted_node(scene, tmp_path)


def test_rows_by_the_thousand_go_in_slices(tmp_path: Path) -> None:
    async def scene(node: Node, client: Client) -> None:
        node.broker.slow_lane = SlowLane(0.0)  # every slice is spent at once
        waits = 0
        wait = node.broker.slow_lane.wait

        async def counted() -> None:
            nonlocal waits
            waits += 1
            await wait()

        node.broker.slow_lane.wait = counted  # type: ignore[method-assign]
        client.feed(frame(*[("a", 0, SHORT)] * 1000))
        rows = await answered(client)
        assert [row.base_offset for row in rows] == list(range(1000))
        assert waits >= 900

    on_a_compacted_node(scene, tmp_path)


def test_a_bug_in_an_inspection_costs_its_connection_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(self: Inspection, budget: unpack_budget.UnpackBudget) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Inspection, "run_likely", broken)

    async def scene(node: Node, client: Client) -> None:
        client.feed(frame(("a", 0, LONG)))
        await until(lambda: client.transport.closed)
        other = Client(node)
        other.feed(frame(("a", 0, SHORT)))
        assert (await answered(other))[0].error_code == 0

    on_a_compacted_node(scene, tmp_path)
    assert "this is a bug" in caplog.text


class Agreeing:
    """A transaction coordinator that agrees at once."""

    def verify(self, question: Question) -> Codes:
        return dict.fromkeys(question.partitions, 0)


def in_transaction(sequence: int, count: int) -> bytes:
    return batch(count, base_sequence=sequence, producer_id=7, producer_epoch=0, transactional=True)


def test_a_transaction_s_first_batches_keep_their_order_while_one_is_inspected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)

    async def scene(node: Node, client: Client) -> None:
        node.broker.transaction_verifier = Agreeing()
        send = partial(frame, transactional_id="t")
        client.feed(send(("a", 0, in_transaction(0, 60_000))))
        await held.reached()
        client.feed(send(("a", 0, in_transaction(60_000, 3))))
        client.feed(send(("a", 0, in_transaction(60_003, 70_000))))
        await idle()
        assert not client.answers()
        held.go.set()
        rows = await answered(client, 3)
        assert [(row.error_code, row.base_offset) for row in rows] == [(0, 0), (0, 60_000), (0, 60_003)]
        assert values(node, "a") == [60_000, 3, 70_000]
        assert not node.broker.verifications._queues
        client.feed(send(("a", 0, in_transaction(130_003, 60_000))))  # open by now
        assert (await answered(client, 4))[-1].base_offset == 130_003

    on_a_compacted_node(scene, tmp_path)


def test_a_marker_that_comes_during_the_inspection_ends_the_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)

    async def scene(node: Node, client: Client) -> None:
        node.broker.transaction_verifier = Agreeing()
        client.feed(frame(("a", 0, in_transaction(0, 60_000)), transactional_id="t"))
        await held.reached()
        marker = EndTransactionMarker(ControlType.ABORT, 0)
        partition_of(node, "a").append_marker(marker, 7, 0, 1)
        held.go.set()
        (row,) = await answered(client)
        assert row.error_code == ErrorCode.INVALID_TXN_STATE
        assert not node.broker.verifications._queues
        assert values(node, "a") == [1]

    on_a_compacted_node(scene, tmp_path)


def test_a_transaction_s_deleted_partition_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)

    async def scene(node: Node, client: Client) -> None:
        node.broker.transaction_verifier = Agreeing()
        client.feed(frame(("a", 0, in_transaction(0, 60_000)), transactional_id="t"))
        await held.reached()
        await node.controller.delete_topics([("a", bytes(16))])
        held.go.set()
        (row,) = await answered(client)
        assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert not node.broker.verifications._queues

    on_a_compacted_node(scene, tmp_path)


def test_a_transaction_s_refused_records_are_named(tmp_path: Path) -> None:
    async def scene(node: Node, client: Client) -> None:
        node.broker.transaction_verifier = Agreeing()
        for count in (10, 60_000):
            data = batch(
                count, keyless=(4,), base_sequence=0, producer_id=7, producer_epoch=0, transactional=True
            )
            client.feed(frame(("a", 0, data), transactional_id="t"))
        rows = await answered(client, 2)
        assert [[each.batch_index for each in row.record_errors] for row in rows] == [[4], [4]]

    on_a_compacted_node(scene, tmp_path)


@pytest.mark.parametrize("version", [5, 9])
def test_more_rows_than_are_decoded_at_once_are_answered_alike(tmp_path: Path, version: int) -> None:
    async def scene(node: Node, client: Client) -> None:
        culprit = batch(3, keyless=(1,))
        rows: list[tuple[str, int, bytes | None]] = [("a", 0, SHORT)] * 600
        rows += [("a", 1, LONG), ("nowhere", 0, SHORT), ("b", 0, culprit), ("b", 1, None), ("b", 1, SHORT)]
        client.feed(frame(*rows, version=version))
        client.feed(frame(("a", 0, SHORT), version=version))
        sent = client.transport.sent
        await until(lambda: len(sent) > 4 and len(sent) > 4 + struct.unpack_from(">i", sent)[0])
        await settled()
        answers, data = [], bytes(sent)
        while data:
            (size,) = struct.unpack_from(">i", data)
            answers.append(ProduceResponse.decode(data[8 + (version >= 9) : 4 + size], version))
            data = data[4 + size :]
        first, second = (list(partition_rows(each)) for each in answers)
        assert [row.base_offset for row in first[:601]] == [*range(600), 0]
        codes = [row.error_code for row in first[600:]]
        assert codes == [
            0,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_RECORD,
            ErrorCode.INVALID_RECORD,
            0,
        ]
        assert [each.batch_index for each in first[602].record_errors] == ([1] if version >= 8 else [])
        assert [row.base_offset for row in second] == [600]

    on_a_compacted_node(scene, tmp_path)


def test_many_rows_without_acks_and_with_an_error_end_the_connection(tmp_path: Path) -> None:
    async def scene(node: Node, client: Client) -> None:
        client.feed(frame(*[("a", 0, SHORT)] * 600, acks=0))
        client.feed(frame(("a", 0, SHORT)))
        assert [row.base_offset for row in await answered(client)] == [600]
        client.feed(frame(*[("a", 0, SHORT)] * 600, ("nowhere", 0, SHORT), acks=0))
        await until(lambda: client.transport.closed)
        assert partition_of(node, "a").log.log_end_offset == 1201

    on_a_compacted_node(scene, tmp_path)


def test_many_rows_of_a_transaction_ask_its_coordinator(tmp_path: Path) -> None:
    async def scene(node: Node, client: Client) -> None:
        node.broker.transaction_verifier = Agreeing()
        first = [("a", 0, in_transaction(sequence, 1)) for sequence in range(600)]
        client.feed(frame(*first, transactional_id="t"))
        rows = await answered(client)
        assert [(row.error_code, row.base_offset) for row in rows] == [(0, each) for each in range(600)]
        client.feed(frame(*[("a", 0, in_transaction(600 + each, 1)) for each in range(600)]))
        codes = {row.error_code for row in (await answered(client, 2))[600:]}
        assert codes == {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}

    on_a_compacted_node(scene, tmp_path)


def test_many_rows_that_do_not_parse_append_nothing(tmp_path: Path) -> None:
    async def scene(node: Node, client: Client) -> None:
        whole = frame(*[("a", 0, SHORT)] * 600)
        torn = struct.pack(">i", len(whole) - 4 - 5) + whole[4:-5]
        client.feed(torn)
        await until(lambda: client.transport.closed)
        assert partition_of(node, "a").log.log_end_offset == 0

    on_a_compacted_node(scene, tmp_path)


@pytest.mark.parametrize("remembered", [False, True])
def test_a_batch_does_not_overtake_one_that_still_waits_for_its_inspection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remembered: bool
) -> None:
    """The first batch opens the transaction; what comes then still queues behind the second."""
    held = Held(monkeypatch)

    async def scene(node: Node, client: Client) -> None:
        asked: list[asyncio.Future[Codes]] = []

        class Thinking:
            def verify(self, question: Question) -> Answer[Codes]:
                asked.append(asyncio.get_running_loop().create_future())
                return asked[-1]

        send = partial(frame, transactional_id="t")
        before: list[tuple[int, int]] = []
        if remembered:  # the connection knows how such a request begins
            node.broker.transaction_verifier = Agreeing()
            for sequence in (0, 1):
                client.feed(send(("a", 0, in_transaction(sequence, 1))))
                await answered(client, sequence + 1)
            assert client.connection.shortcut is not None
            partition_of(node, "a").append_marker(EndTransactionMarker(ControlType.COMMIT, 0), 7, 0, 1)
            before = [(0, 0), (0, 1)]
        node.broker.transaction_verifier = Thinking()
        sequence, offset = len(before), len(before) + remembered
        client.feed(send(("a", 0, in_transaction(sequence, 1))))
        client.feed(send(("a", 0, in_transaction(sequence + 1, 60_000))))
        asked[0].set_result({("a", 0): 0})
        await held.reached()
        client.feed(send(("a", 0, in_transaction(sequence + 60_001, 3))))
        await idle()
        held.go.set()
        rows = await answered(client, len(before) + 3)
        expected = [*before, (0, offset), (0, offset + 1), (0, offset + 60_001)]
        assert [(row.error_code, row.base_offset) for row in rows] == expected
        assert not node.broker.verifications._queues

    on_a_compacted_node(scene, tmp_path)


@pytest.mark.parametrize("place", ["partition", "topic", "request"])
@pytest.mark.parametrize("count", [17, 300])
def test_many_tagged_fields_are_stepped_over_in_slices(tmp_path: Path, place: str, count: int) -> None:
    """1.5 million of them fit three megabytes, and held the loop for a second and more."""
    tags = uvarint(count) + b"\x63\x00" * count

    def section(name: str) -> bytes:
        return tags if name == place else b"\x00"

    head = struct.pack(">hhih", 0, 9, 1, 4) + b"load" + b"\x00"
    rows = struct.pack(">i", 0) + uvarint(len(SHORT) + 1) + SHORT + section("partition")
    body = b"\x00" + struct.pack(">hi", -1, 1000) + b"\x02\x02a\x02" + rows + section("topic")
    request = head + body + section("request")
    with pytest.raises(ManyRows):
        decode_produce(memoryview(request), len(head), 9)

    async def scene(node: Node, client: Client) -> None:
        client.feed((struct.pack(">i", len(request)) + request) * 2)
        assert [row.base_offset for row in await answered(client, 2)] == [0, 1]

    on_a_compacted_node(scene, tmp_path)


def test_the_rows_of_a_large_request_are_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its buffer is its own. Copying 90 MB of rows behind one that is put off held the loop for 100 ms."""
    held = Held(monkeypatch)
    rests: list[list[produce_later._Row]] = []
    rest_of = produce_later._rest

    def noted(*given: object) -> list[produce_later._Row]:
        rests.append(list(rest_of(*given)))  # type: ignore[arg-type]
        return rests[-1]

    monkeypatch.setattr(produce_later, "_rest", noted)

    async def scene(node: Node, client: Client) -> None:
        large = [batch(1, value=bytes([each]) * 900_000, codec="none") for each in range(4)]
        client.feed(frame(("a", 0, LONG), *[("b", 0, each) for each in large]))
        await held.reached()
        (rest,) = rests
        assert [type(row.records.obj) for row in rest] == [mmap] * 4  # type: ignore[union-attr]
        rests.clear()
        Client(node).feed(frame(("a", 1, SHORT)))  # what is received now goes elsewhere
        client.feed(frame(*[("a", 1, SHORT)] * 300))
        held.go.set()
        rows = await answered(client, 2)
        assert {row.error_code for row in rows} == {0}
        log = partition_of(node, "b").log
        data = log.reader.read(0, 1 << 23, end_offset=log.log_end_offset)
        assert [bytes(each.data[61:]) for each in iter_batches(data)] == [each[61:] for each in large]

    on_a_compacted_node(scene, tmp_path)


def test_nobody_waits_for_batches_that_unpack_to_far_more_than_was_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch, "run")
    bomb = batch(1, value=bytes(3 << 20))

    async def scene(node: Node, client: Client) -> None:
        client.feed(frame(("a", 0, bomb)))
        await held.reached()
        others = [Client(node) for _ in range(5)]
        for other in others:
            other.feed(frame(("b", 0, bomb)))
        good = Client(node)
        good.feed(frame(("b", 1, LONG)))
        assert [(row.error_code, row.base_offset) for row in await answered(good)] == [(0, 0)]
        held.go.set()
        assert [(row.error_code, row.base_offset) for row in await answered(client)] == [(0, 0)]
        offsets = [row.base_offset for other in others for row in await answered(other)]
        assert sorted(offsets) == list(range(5))

    on_a_compacted_node(scene, tmp_path)


def test_large_rows_are_looked_at_one_in_a_slice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """700 KB of snappy may take 8 ms on the loop: not five of them in one turn."""
    begun: list[int] = []
    go_on = produce_later.go_on_later

    def later(request: object, topics: object, topic_at: int, at: int, deferred: object) -> None:
        begun.append(topic_at)
        go_on(request, topics, topic_at, at, deferred)  # type: ignore[arg-type]

    monkeypatch.setattr("moldau.broker.handlers.apis.produce.produce.go_on_later", later)
    monkeypatch.setattr("moldau.common.core.slow_lane.Slices.spent", lambda _: True)
    large = batch(1, value=random.Random(1).randbytes(100_000), codec="snappy")

    async def scene(node: Node, client: Client) -> None:
        client.feed(frame(("a", 0, large), ("a", 1, large), ("b", 0, large)))
        rows = await answered(client)
        assert [(row.error_code, row.base_offset) for row in rows] == [(0, 0)] * 3
        assert begun == [1]

    on_a_compacted_node(scene, tmp_path)
