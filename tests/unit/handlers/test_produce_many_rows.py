"""Produce requests with rows by the hundred: in slices, with one budget, and answered in their places."""

import random
import struct
from mmap import mmap
from pathlib import Path

import pytest
from data_plane_world import Client, partition_of, partition_rows
from jumping_time import settled, until
from put_off_produce import (
    LONG,
    SHORT,
    Agreeing,
    Held,
    answered,
    batch,
    frame,
    in_transaction,
    on_a_compacted_node,
)

from moldau.broker.handlers.apis.produce import produce_later
from moldau.broker.node import Node
from moldau.common.core.slow_lane import SlowLane
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.hot_produce import ManyRows, decode_produce
from moldau.common.protocol.messages.produce import (
    ProduceResponse,
)
from moldau.common.protocol.wire import uvarint
from moldau.common.records import unpack_budget
from moldau.common.records.batch import iter_batches


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
        node.broker.verifications.verifier = Agreeing()
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
