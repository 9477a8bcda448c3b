"""Tables: the content is the topic's, whatever happens to the process, the snapshot, the disk, the broker."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from hypothesis import given
from hypothesis import strategies as st
from kit_running import Program, wait_until
from torture.cluster_proxy import Cable

from moldau.kit.errors import BadCall, KitError, TimedOut
from moldau.kit.table import BYTES, TEXT, AsyncTable, Change, Table
from moldau.kit.table.snapshot import DamagedSnapshot, Position, Snapshot, read_snapshot, write_snapshot
from moldau.testing import Broker

MakeTopic = Callable[..., str]


@pytest.fixture
def compacted(made_topic: MakeTopic) -> str:
    return made_topic(2, cleanup_policy="compact")


def open_table(broker: Broker, topic: str, **more: Any) -> Table:
    return Table(topic, bootstrap_servers=broker.bootstrap_servers, **more)


def content(broker: Broker, topic: str) -> dict[str, Any]:
    """The table as a new reader without a snapshot has it."""
    with open_table(broker, topic) as table:
        return dict(table)


# --- the dictionary -----------------------------------------------------------------------------------


def test_writes_are_there_after_a_flush_and_others_see_them(shared_broker: Broker, compacted: str) -> None:
    with open_table(shared_broker, compacted) as mine, open_table(shared_broker, compacted) as other:
        seen: list[Change] = []
        end = other.watch(seen.append)
        mine["a"], mine["b"], mine["c"] = 1, {"x": [1, 2]}, "text"
        mine.flush()
        assert dict(mine) == {"a": 1, "b": {"x": [1, 2]}, "c": "text"}
        assert other.wait_for("c", 60) == "text"
        del mine["a"]
        mine["c"] = "new"
        mine.flush()
        assert ("a" in mine, len(mine), mine.get("a", 0)) == (False, 2, 0)
        assert other.wait_for("c", 60, lambda value: value == "new") == "new"
        wait_until(lambda: len(seen) == 5, "all changes are told")
        assert Change("c", "text", "new") in seen
        assert Change("a", 1, None) in seen
        end()
        with pytest.raises(KeyError):
            mine["a"]
        with pytest.raises(TimedOut, match="was not in the table"):
            other.wait_for("nobody", 0.1)
        mine.clear()
        mine.flush()
        assert len(mine) == 0
    assert content(shared_broker, compacted) == {}


def test_a_watcher_that_raises_does_not_end_the_table(
    shared_broker: Broker, compacted: str, caplog: pytest.LogCaptureFixture
) -> None:
    with open_table(shared_broker, compacted) as table:
        table.watch(lambda change: 1 / 0)
        table["a"] = 1
        table.flush()
        table["b"] = 2
        table.flush()
        assert dict(table) == {"a": 1, "b": 2}
    assert "a watcher of" in caplog.text


def test_one_watchers_fault_is_not_the_others_and_items_may_go_meanwhile(
    shared_broker: Broker, compacted: str
) -> None:
    with open_table(shared_broker, compacted) as table:
        seen: list[Change] = []

        def fail(change: Change) -> None:
            raise ValueError("no number")

        end = table.watch(fail)
        table.watch(seen.append)
        table.update({"a": 1, "b": 2, "c": 3})
        table.flush()
        wait_until(lambda: len(seen) == 3, "the other watcher is told")
        end()
        end()
        pairs, values = iter(table.items()), iter(table.values())
        found = [next(pairs)]
        counted = [next(values)]
        table.clear()
        table.flush()
        assert len(table) == 0
        assert sorted(found + list(pairs)) == [("a", 1), ("b", 2), ("c", 3)]
        assert sorted(counted + list(values)) == [1, 2, 3]
        with pytest.raises(BadCall, match="has been started already"):
            table.start()
    table.close()
    open_table(shared_broker, compacted).close()  # was never started


def test_asyncio_is_told_of_a_table_that_failed_and_of_changes_that_come_too_fast(
    shared_broker: Broker, compacted: str
) -> None:
    async def main() -> None:
        async with AsyncTable(compacted, bootstrap_servers=shared_broker.bootstrap_servers) as table:
            changes = table.changes(limit=2)
            first = asyncio.create_task(anext(changes))
            await asyncio.sleep(0)
            for number in range(9):
                table[str(number)] = number
            await first
            await table.flush()
            await asyncio.sleep(0)
            with pytest.raises(BadCall, match="come faster than they are taken: 2 wait"):
                await anext(changes)
            waits = asyncio.create_task(table.wait_for("never"))
            changes = table.changes()
            takes = asyncio.create_task(anext(changes))
            await asyncio.sleep(0.1)
            table.table._follower.failure = KitError("the end")
            for task in (waits, takes):
                with pytest.raises(KitError, match="the end"):
                    await task

    asyncio.run(main())


def test_asyncio_awaits_flush_keys_and_changes(shared_broker: Broker, compacted: str) -> None:
    async def main() -> None:
        async with AsyncTable(compacted, bootstrap_servers=shared_broker.bootstrap_servers) as table:
            changes = table.changes()
            first = asyncio.ensure_future(anext(changes))
            waiting = asyncio.ensure_future(table.wait_for("b", 60, lambda value: value > 1))
            await asyncio.sleep(0)
            table["a"] = 1
            await table.flush()
            assert await first == Change("a", None, 1)
            table["b"] = 1
            table["b"] = 2
            assert await waiting == 2
            with pytest.raises(TimedOut):
                await table.wait_for("nobody", 0.05)
            assert (len(table), "a" in table, table.get("x")) == (2, True, None)
            await changes.aclose()  # type: ignore[attr-defined]

    asyncio.run(main())


# --- the process, the disk, the brokers ---------------------------------------------------------------


def test_a_killed_process_comes_back_with_what_the_topic_has(
    shared_broker: Broker, compacted: str, tmp_path: Path
) -> None:
    snapshot = tmp_path / "content.snapshot"
    program = Program(tmp_path, "table", shared_broker.bootstrap_servers, compacted, str(snapshot))
    try:
        for turn in range(3):
            program.start()
            program.wait_for(15 * (turn + 1))
            program.kill()  # while writing the topic or the snapshot
            (tmp_path / "content.snapshot.new").write_bytes(b"half")
    finally:
        program.kill()
    with open_table(shared_broker, compacted, snapshot=snapshot) as table:
        assert table.started_from.startswith("the snapshot"), table.started_from
        found = dict(table)
    assert found == content(shared_broker, compacted)
    last = int(program.lines()[-1])
    assert max(found.values()) >= last, "what was flushed is lost"
    assert not (tmp_path / "content.snapshot.new").exists()


def test_a_full_disk_leaves_the_last_snapshot_and_the_table_goes_on(
    shared_broker: Broker, compacted: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "content.snapshot"
    with open_table(shared_broker, compacted, snapshot=path) as table:
        table["a"] = 1
        table.flush()
    before = path.read_bytes()
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, old[1]))  # writing fails in the middle of a file
    try:
        with open_table(shared_broker, compacted, snapshot=path) as table:
            table.update({f"k{number}": "x" * 100 for number in range(100)})
            table.flush()
            assert len(table) == 101
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert "no snapshot of" in caplog.text
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    with open_table(shared_broker, compacted, snapshot=path) as table:
        assert len(table) == 101


def test_a_killed_broker_and_a_stalled_network_delay_only(
    cable_and_broker: tuple[Cable, Broker], topic: str, tmp_path: Path
) -> None:
    cable, broker = cable_and_broker
    broker.bootstrap_servers = cable.address
    config = {"socket.timeout.ms": 1000, "reconnect.backoff.max.ms": 200}
    with open_table(
        broker, topic, config=config, create_partitions=2, snapshot=tmp_path / "s", snapshot_seconds=0.2
    ) as table:
        table["a"] = 1
        table.flush()
        broker.kill()
        table["a"] = 2
        assert table["a"] == 1, "reading needs no broker"
        broker.restart()
        table.flush()
        assert table["a"] == 2
        cable.cut()
        table["a"] = 3
        with pytest.raises(TimedOut, match="were not acknowledged within"):
            table.flush(1.5)
        cable.heal()
        table.flush()
        assert table["a"] == 3
    assert content(broker, topic) == {"a": 3}


# --- when a snapshot is not used ----------------------------------------------------------------------


def test_damage_is_never_skipped_silently(
    shared_broker: Broker, compacted: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "content.snapshot"
    with open_table(shared_broker, compacted, snapshot=path) as table:
        table.update({f"k{number}": number for number in range(50)})
        table.flush()
    whole = bytearray(path.read_bytes())
    whole[-60] ^= 1
    path.write_bytes(whole)
    with pytest.raises(KitError, match="checksum of block"):
        open_table(shared_broker, compacted, snapshot=path, damaged="refuse").start()
    with open_table(shared_broker, compacted, snapshot=path) as table:
        assert len(table) == 50
        assert "is damaged" in table.started_from
    assert "is damaged" in caplog.text
    assert path.with_name("content.snapshot.damaged").read_bytes() == whole
    with open_table(shared_broker, compacted, snapshot=path) as table:
        assert table.started_from.startswith("the snapshot")


def test_a_snapshot_of_what_the_topic_no_longer_is_is_not_used(
    shared_broker: Broker, made_topic: MakeTopic, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    compacted = made_topic(2, cleanup_policy="compact,delete")
    caplog.set_level(logging.WARNING)
    path = tmp_path / "content.snapshot"

    def started(**more: Any) -> tuple[str, dict[str, Any]]:
        with open_table(shared_broker, compacted, snapshot=path, **more) as table:
            return table.started_from, dict(table)

    assert "there is no snapshot" in started()[0]
    with open_table(shared_broker, compacted, snapshot=path) as table:
        table.update({f"k{number}": number for number in range(20)})
        table.flush()
    saved = read_snapshot(path)
    assert saved is not None

    def save(**other: Any) -> None:
        write_snapshot(path, saved._replace(data={b"ghost": b"1"}, **other))

    save(as_of_ms=int((time.time() - 86_400) * 1000))
    reason, found = started()
    assert "delete.retention.ms" in reason
    assert len(found) == 20
    save(as_of_ms=int((time.time() + 3600) * 1000))
    assert "in the future" in started()[0]
    save(positions={0: Position(10_000, 0), 1: Position(0, -1)})
    reason, found = started()
    assert "ends at" in reason
    assert "ghost" not in found
    save(topic="another")
    with pytest.raises(KitError, match="is a snapshot of another"):
        started()
    admin = AdminClient({"bootstrap.servers": shared_broker.bootstrap_servers})
    save(positions={0: Position(1, 0), 1: Position(1, 0)})
    everything = [TopicPartition(compacted, number, 5) for number in (0, 1)]
    for future in admin.delete_records(everything).values():
        future.result(60)
    reason, found = started()
    assert "begins at 5, the snapshot ends at 1" in reason
    assert "ghost" not in found
    save()
    admin.delete_topics([compacted])[compacted].result(60)
    shared_broker.create_topic(compacted, 2, cleanup_policy="compact")
    reason, found = started()
    assert "deleted and made anew" in reason
    assert found == {}
    assert "deleted and made anew" in caplog.text


def test_a_running_table_is_built_anew_when_its_topic_is(shared_broker: Broker, compacted: str) -> None:
    admin = AdminClient({"bootstrap.servers": shared_broker.bootstrap_servers})
    with open_table(shared_broker, compacted, snapshot_seconds=0.2) as table:
        seen: list[Change] = []
        table.watch(seen.append)
        table.update({"a": 1, "b": 2, "c": 3})
        table.flush()
        admin.delete_topics([compacted])[compacted].result(60)
        shared_broker.create_topic(compacted, 2, cleanup_policy="compact")
        with open_table(shared_broker, compacted) as other:
            other["b"] = 20
            other.flush()
        wait_until(lambda: dict(table) == {"b": 20}, "the new content")
        assert table.rebuilt_count >= 1
        assert Change("a", 1, None) in seen
        trail = [change[1:] for change in seen if change.key == "b"]
        assert (2, 20) in trail or {(2, None), (None, 20)} <= set(trail)  # it may have been seen empty first


def test_a_table_that_was_cut_off_while_deletions_are_kept_is_built_anew(
    shared_broker: Broker, compacted: str
) -> None:
    with open_table(shared_broker, compacted, snapshot_seconds=0.1) as table:
        table["a"] = 1
        table.flush()
        table._follower.data[b"zombie"] = b"2"  # its deletion has been compacted away unread
        table._follower._wall_clock = lambda: time.time() + 2 * 86_400  # a laptop that was asleep
        wait_until(lambda: table.rebuilt_count == 1, "it is built anew")
        wait_until(lambda: dict(table) == {"a": 1}, "it is whole again")
        table["b"] = 2
        table.flush()
        asked = table._follower._as_of
        wait_until(lambda: table._follower._as_of > asked + 0.3, "some more looks")
        assert table.rebuilt_count == 1


def test_what_was_written_to_a_topic_that_is_gone_is_said_once(shared_broker: Broker, compacted: str) -> None:
    admin = AdminClient({"bootstrap.servers": shared_broker.bootstrap_servers})
    with open_table(shared_broker, compacted, snapshot_seconds=0.2, keys=BYTES) as table:
        for number in range(20):
            table[b"%d" % number] = number
        wait_until(lambda: len(table) == 20, "they are there, without a flush")
        admin.delete_topics([compacted])[compacted].result(60)
        shared_broker.create_topic(compacted, 2, cleanup_policy="compact")
        wait_until(lambda: len(table) == 0, "the new topic")
        with pytest.raises(KitError, match="deleted and made anew"):
            table.flush()
        table[b"new"] = 1
        table.flush()
        assert dict(table) == {b"new": 1}


def test_marks_of_transactions_count_as_read(shared_broker: Broker, compacted: str, tmp_path: Path) -> None:
    producer = Producer({"bootstrap.servers": shared_broker.bootstrap_servers, "transactional.id": compacted})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(compacted, "1", "key", partition=0)
    producer.commit_transaction(60)
    path = tmp_path / "snapshot"
    with open_table(shared_broker, compacted, snapshot=path) as table:
        assert dict(table) == {"key": 1}
        wait_until(lambda: table._follower.position(0) == 2, "the end, behind the mark")
    saved = read_snapshot(path)
    assert saved is not None
    assert saved.positions[0].next_offset == 2  # or it would not be used when the log begins there


def test_new_partitions_are_read_too(shared_broker: Broker, compacted: str) -> None:
    from confluent_kafka.admin import NewPartitions

    admin = AdminClient({"bootstrap.servers": shared_broker.bootstrap_servers})
    with open_table(shared_broker, compacted, snapshot_seconds=0.2, keys=BYTES, values=TEXT) as table:
        admin.create_partitions([NewPartitions(compacted, 4)])[compacted].result(60)
        producer = Producer({"bootstrap.servers": shared_broker.bootstrap_servers, "log_level": 0})
        producer.produce(compacted, b"there", b"key", partition=3)
        assert producer.flush(60) == 0
        assert table.wait_for(b"key", 60) == "there"


def test_records_of_aborted_transactions_are_no_content(shared_broker: Broker, compacted: str) -> None:
    producer = Producer({"bootstrap.servers": shared_broker.bootstrap_servers, "transactional.id": compacted})
    producer.init_transactions(60)
    for value, end in (("1", producer.commit_transaction), ("2", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(compacted, value, "key", partition=0)
        producer.flush(60)
        end(60)
    # The last offsets are marks of transactions, which no client hands out: the start must not wait for them.
    assert content(shared_broker, compacted) == {"key": 1}


# --- the file -----------------------------------------------------------------------------------------

SAVED = Snapshot("t", "id", 17, {0: Position(5, 2)}, {b"a": b"1", b"bb": b"", b"": b"333"})


@given(st.data())
def test_any_damage_to_a_snapshot_is_found(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "damage.snapshot"
    write_snapshot(path, SAVED)
    assert read_snapshot(path) == SAVED
    whole = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        whole = whole[: data.draw(st.integers(0, len(whole) - 1))]
    else:
        whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(whole)
    with pytest.raises(DamagedSnapshot):
        read_snapshot(path)


def test_bad_calls_of_a_table_get_a_sentence(shared_broker: Broker, made_topic: MakeTopic) -> None:
    plain = made_topic()
    with pytest.raises(KitError, match=r"cleanup.policy=delete.*Set cleanup.policy=compact"):
        open_table(shared_broker, plain).start()
    with pytest.raises(KitError, match=r"it does not exist. Make it first: moldau topics create .*compact"):
        open_table(shared_broker, f"{plain}-none").start()
    with pytest.raises(BadCall, match="there is no folder"):
        open_table(shared_broker, plain, snapshot="/no/such/folder/file")
    with pytest.raises(BadCall, match="neither 'rebuild' nor 'refuse'"):
        open_table(shared_broker, plain, damaged="ignore")
    with pytest.raises(BadCall, match="is not open"):
        len(open_table(shared_broker, plain))
    with open_table(shared_broker, f"{plain}-made", create_partitions=1) as table:
        with pytest.raises(BadCall, match="keys are text"):
            table[1] = 1
        with pytest.raises(BadCall, match="values are JSON"):
            table["a"] = object()
        with pytest.raises(BadCall, match="popitem"):
            table.popitem()
        producer = Producer({"bootstrap.servers": shared_broker.bootstrap_servers})
        producer.produce(f"{plain}-made", b"{", b"bad")
        producer.flush(60)
        wait_until(lambda: "bad" in table, "it is there")
        with pytest.raises(KitError, match="is not JSON"):
            table["bad"]


def test_a_topic_that_cannot_be_made_in_time_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it accepts, and answers nothing
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        table = Table("prices", bootstrap_servers=address, create_partitions=1, timeout_seconds=0.5)
        with pytest.raises(KitError, match="topic prices is not created"):
            table.start()
