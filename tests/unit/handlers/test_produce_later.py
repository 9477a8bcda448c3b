"""Produce requests with batches whose records must all be looked at, beside the loop: order, errors, and what
happens meanwhile.
"""

import asyncio
import struct
import threading
from functools import partial
from pathlib import Path

import pytest
from data_plane_world import Client, led_by, partition_of, partition_rows
from jumping_time import idle, settled, until
from kept import kept
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
    values,
)

from moldau.broker.handlers.apis.produce import produce_later
from moldau.broker.handlers.apis.transactions.transaction_verifier import Codes, Question
from moldau.broker.log.appending.inspection import Inspection
from moldau.broker.node import Node
from moldau.common.core.waiting import Answer
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.produce import (
    ProduceResponse,
)
from moldau.common.records import unpack_budget
from moldau.common.records.control import ControlType, EndTransactionMarker

IDLE = kept(produce_later)
"""What the module keeps while nothing is put off."""


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
        assert kept(produce_later) == IDLE

    on_a_compacted_node(scene, tmp_path, moldau_durability=durability)


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
        partition_of(node, "b").log.writer.go_offline()
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
        assert kept(produce_later) == IDLE
        assert not partition_of(node, "b").waiting_count

    on_a_compacted_node(scene, tmp_path)


def test_a_stop_does_not_wait_for_what_is_put_off(tmp_path: Path) -> None:
    async def scene(node: Node, client: Client) -> None:
        client.feed(frame(*[("a", 0, LONG)] * 50))
        await asyncio.sleep(0)

    on_a_compacted_node(scene, tmp_path)
    assert kept(produce_later) == IDLE


def test_without_acks_the_connection_ends_when_a_row_put_off_fails(tmp_path: Path) -> None:
    async def scene(node: Node, client: Client) -> None:
        client.feed(frame(("a", 0, LONG), acks=0))
        client.feed(frame(("a", 1, SHORT)))
        (row,) = await answered(client)
        assert (row.error_code, values(node, "a")) == (0, [60_000])
        client.feed(frame(("a", 0, batch(60_000, keyless=(1,))), acks=0))
        await until(lambda: client.transport.closed)

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


def test_a_transaction_s_first_batches_keep_their_order_while_one_is_inspected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)

    async def scene(node: Node, client: Client) -> None:
        node.broker.verifications.verifier = Agreeing()
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
        assert kept(node.broker.verifications) == 0
        client.feed(send(("a", 0, in_transaction(130_003, 60_000))))  # open by now
        assert (await answered(client, 4))[-1].base_offset == 130_003

    on_a_compacted_node(scene, tmp_path)


def test_a_marker_that_comes_during_the_inspection_ends_the_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)

    async def scene(node: Node, client: Client) -> None:
        node.broker.verifications.verifier = Agreeing()
        client.feed(frame(("a", 0, in_transaction(0, 60_000)), transactional_id="t"))
        await held.reached()
        marker = EndTransactionMarker(ControlType.ABORT, 0)
        partition_of(node, "a").append_marker(marker, 7, 0, 1)
        held.go.set()
        (row,) = await answered(client)
        assert row.error_code == ErrorCode.INVALID_TXN_STATE
        assert kept(node.broker.verifications) == 0
        assert values(node, "a") == [1]

    on_a_compacted_node(scene, tmp_path)


def test_a_transaction_s_deleted_partition_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)

    async def scene(node: Node, client: Client) -> None:
        node.broker.verifications.verifier = Agreeing()
        client.feed(frame(("a", 0, in_transaction(0, 60_000)), transactional_id="t"))
        await held.reached()
        await node.controller.delete_topics([("a", bytes(16))])
        held.go.set()
        (row,) = await answered(client)
        assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert kept(node.broker.verifications) == 0

    on_a_compacted_node(scene, tmp_path)


def test_a_transaction_s_refused_records_are_named(tmp_path: Path) -> None:
    async def scene(node: Node, client: Client) -> None:
        node.broker.verifications.verifier = Agreeing()
        for count in (10, 60_000):
            data = batch(
                count, keyless=(4,), base_sequence=0, producer_id=7, producer_epoch=0, transactional=True
            )
            client.feed(frame(("a", 0, data), transactional_id="t"))
        rows = await answered(client, 2)
        assert [[each.batch_index for each in row.record_errors] for row in rows] == [[4], [4]]

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
            node.broker.verifications.verifier = Agreeing()
            for sequence in (0, 1):
                client.feed(send(("a", 0, in_transaction(sequence, 1))))
                await answered(client, sequence + 1)
            assert client.connection.shortcut is not None
            partition_of(node, "a").append_marker(EndTransactionMarker(ControlType.COMMIT, 0), 7, 0, 1)
            before = [(0, 0), (0, 1)]
        node.broker.verifications.verifier = Thinking()
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
        assert kept(node.broker.verifications) == 0

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
