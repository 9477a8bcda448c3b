"""connect-offsets and connect-status, and the file of a standalone worker."""

import subprocess
from pathlib import Path

import pytest

from moldau.services.connect.runtime.interface import State, TaskId
from moldau.services.connect.stores import offset_file
from moldau.services.connect.stores.offsets import KnownOffset, OffsetsState, offset_key
from moldau.services.connect.stores.statuses import (
    StatusesState,
    TopicUse,
    WorkerStatus,
    connector_status_record,
    task_status_record,
    topic_record,
    topic_removal,
)


def test_offsets_are_found_whatever_the_order_of_members() -> None:
    state = OffsetsState()
    state.replay(b'["c",{"a":1,"b":2}]', b'{"position":1}')
    state.replay(b'["c",{"b":2,"a":1}]', b'{"position":2}')
    assert state.offset("c", {"a": 1, "b": 2}) == {"position": 2}
    removal = state.removal_records("c", {"a": 1, "b": 2})
    assert {key for key, _ in removal} == {b'["c",{"a":1,"b":2}]', b'["c",{"b":2,"a":1}]'}
    for record in removal:
        state.replay(*record)
    assert state.offsets("c") == []


def test_offsets_are_written_as_kafka_does() -> None:
    state = OffsetsState()
    written = state.records(
        "c", [KnownOffset({"file": "/x"}, {"position": 17}), KnownOffset({"file": "/y"}, None)]
    )
    assert written == [(b'["c",{"file":"/x"}]', b'{"position":17}'), (b'["c",{"file":"/y"}]', None)]


@pytest.mark.parametrize("key", [b"", b"null", b'"c"', b'["c"]', b'["c",1]', b"\xff", b"[" * 5000])
def test_offsets_that_are_not_understood_are_skipped(key: bytes) -> None:
    state = OffsetsState()
    state.replay(key, b"{}")
    assert state.offsets("c") == []


def test_statuses_are_written_as_kafka_does_and_read_back() -> None:
    status = WorkerStatus(State.FAILED, "host:8083", 3, "no", "1")
    record = task_status_record(TaskId("a-b", 12), status)
    assert record == (
        "status-task-a-b-12",
        b'{"state":"FAILED","trace":"no","worker_id":"host:8083","generation":3,"version":"1"}',
    )
    state = StatusesState()
    state.replay(*record)
    state.replay("status-connector-a-b", b'{"state":"RUNNING","trace":null,"worker_id":"w","generation":1}')
    assert state.tasks_of("a-b") == {12: status}
    assert state.connectors["a-b"] == WorkerStatus(State.RUNNING, "w", 1)
    state.replay(*connector_status_record("a-b", None))
    assert not state.connectors


def test_topics_are_noted_and_forgotten() -> None:
    state = StatusesState()
    use = TopicUse("t", "c", 0, 5)
    assert topic_record(use) == (
        "status-topic-t:connector-c",
        b'{"topic":{"name":"t","connector":"c","task":0,"discoverTimestamp":5}}',
    )
    state.replay(*topic_record(use))
    assert state.topics == {"c": {"t": use}}
    state.replay(*topic_removal("t", "c"))
    assert state.topics == {"c": {}}


def test_an_older_generation_does_not_overwrite_another_workers_word() -> None:
    state = StatusesState()
    known = WorkerStatus(State.RUNNING, "new", 5)
    assert not state.may_write(known, WorkerStatus(State.UNASSIGNED, "old", 4))
    assert state.may_write(known, WorkerStatus(State.UNASSIGNED, "new", 4))
    assert state.may_write(known, WorkerStatus(State.UNASSIGNED, "other", 6))


def test_the_file_survives_being_read_and_written(tmp_path: Path) -> None:
    entries = {offset_key("c", {"f": index}): b'{"position":%d}' % index for index in range(40)} | {
        b"n": None
    }
    offset_file.save(tmp_path / "o", entries)
    assert offset_file.load(tmp_path / "o") == entries
    assert offset_file.load(tmp_path / "none") == {}
    data = (tmp_path / "o").read_bytes()
    for size in range(0, len(data), 7):
        (tmp_path / "cut").write_bytes(data[:size])
        if size:
            with pytest.raises(ValueError, match=r"offsets"):
                offset_file.load(tmp_path / "cut")


def test_java_reads_the_file_and_we_read_javas(tmp_path: Path) -> None:
    from moldau.ensemble.java import installed_java

    home = installed_java(11)
    if home is None or not (home / "bin" / "javac").exists():
        pytest.skip("this machine has no JDK")
    (tmp_path / "Offsets.java").write_text(
        """import java.io.*; import java.util.*;
        public class Offsets { public static void main(String[] a) throws Exception {
          Map<byte[], byte[]> m;
          try (ObjectInputStream in = new ObjectInputStream(new FileInputStream(a[0]))) {
            m = (Map<byte[], byte[]>) in.readObject();
          }
          TreeMap<String, String> t = new TreeMap<>();
          for (Map.Entry<byte[], byte[]> e : m.entrySet())
            t.put(new String(e.getKey()), e.getValue() == null ? "-" : new String(e.getValue()));
          System.out.println(t);
          try (ObjectOutputStream out = new ObjectOutputStream(new FileOutputStream(a[1]))) {
            out.writeObject(m);
          }
        } }"""
    )
    entries: dict[bytes, bytes | None] = {b'["c",{"f":%d}]' % index: b"%d" % index for index in range(20)}
    entries[b"gone"] = None
    offset_file.save(tmp_path / "ours", entries)
    ran = subprocess.run(
        [home / "bin" / "java", tmp_path / "Offsets.java", tmp_path / "ours", tmp_path / "javas"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "gone=-" in ran.stdout
    assert offset_file.load(tmp_path / "javas") == entries


@pytest.mark.parametrize(
    "value",
    [
        b'{"state":"RUNNING","worker_id":"w","generation":Infinity}',
        b'{"state":[],"worker_id":"w","generation":1}',
        b"[]",
        b"[" * 5000,
    ],
)
def test_statuses_that_are_not_understood_are_skipped(value: bytes) -> None:
    state = StatusesState()
    state.replay("status-connector-c", value)
    state.replay("status-task-c-0", value)
    assert (state.connectors, state.tasks_of("c")) == ({}, {})


def test_a_trace_that_is_no_text_is_shown_as_text() -> None:
    state = StatusesState()
    state.replay(
        "status-connector-c",
        b'{"state":"FAILED","worker_id":"w","generation":1,"trace":{"a":1},"restarts_at":"soon"}',
    )
    found = state.connectors["c"]
    assert (found.trace, found.restarts_at_ms) == ("{'a': 1}", None)


def test_tasks_of_one_connector_are_found_and_go() -> None:
    state, status = StatusesState(), WorkerStatus(State.RUNNING, "w", 1)
    for task in (TaskId("a", 10), TaskId("a", 2), TaskId("b", 0)):
        state.replay(*task_status_record(task, status))
    assert list(state.tasks_of("a")) == [2, 10]
    state.replay(*task_status_record(TaskId("a", 2), None))
    state.replay(*task_status_record(TaskId("a", 2), None))
    assert list(state.tasks_of("a")) == [10]
    assert list(state.tasks_of("b")) == [0]
