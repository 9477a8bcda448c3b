"""connect-configs: records in Kafka's bytes, and what replaying them gives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.services.connect.runtime.interface import State, TaskId
from moldau.services.connect.stores.configs import (
    ConfigsState,
    ConnectorChanged,
    ConnectorRemoved,
    RestartAsked,
    SessionKey,
    TargetChanged,
    TasksChanged,
    connector_record,
    fencing_record,
    level_record,
    removal_records,
    restart_record,
    session_key_record,
    target_record,
    task_records,
)


def replayed(*records: tuple[str, bytes | None]) -> ConfigsState:
    state = ConfigsState()
    for offset, (key, value) in enumerate(records):
        state.replay(key, value, offset)
    return state


def test_the_bytes_are_kafkas() -> None:
    assert connector_record("c", {"name": "c", "x": "ä\n"}) == (
        "connector-c",
        '{"properties":{"name":"c","x":"ä\\n"}}'.encode(),
    )
    assert task_records("c", [{"a": "1"}, {"a": "2"}]) == [
        ("task-c-0", b'{"properties":{"a":"1"}}'),
        ("task-c-1", b'{"properties":{"a":"2"}}'),
        ("commit-c", b'{"tasks":2}'),
    ]
    assert target_record("c", State.STOPPED) == ("target-state-c", b'{"state":"PAUSED","state.v2":"STOPPED"}')
    assert target_record("c", State.RUNNING) == (
        "target-state-c",
        b'{"state":"STARTED","state.v2":"STARTED"}',
    )
    assert fencing_record("c", 3) == ("tasks-fencing-c", b'{"task-count":3}')
    assert restart_record(RestartAsked("c", True, False)) == (
        "restart-connector-c",
        b'{"include-tasks":true,"only-failed":false}',
    )
    assert level_record("a.b", "DEBUG") == ("logger-cluster-a.b", b'{"level":"DEBUG"}')
    assert session_key_record(SessionKey(b"\x00\x01", "HmacSHA256", 5)) == (
        "session-key",
        b'{"key":"AAE=","algorithm":"HmacSHA256","creation-timestamp":5}',
    )


def test_tasks_count_only_after_their_commit() -> None:
    records = task_records("c", [{"a": "1"}, {"a": "2"}])
    state = replayed(connector_record("c", {}), *records[:-1])
    assert state.tasks("c") == []
    assert state.replay(*records[-1], 9) == (TasksChanged("c"),)
    assert state.configs_of_tasks("c") == [{"a": "1"}, {"a": "2"}]
    assert state.pending_fencing == {"c"}
    state.replay(*fencing_record("c", 2), 10)
    assert not state.pending_fencing


def test_a_commit_whose_tasks_were_compacted_away_makes_the_connector_inconsistent() -> None:
    records = task_records("c", [{"a": "1"}, {"a": "2"}])
    state = replayed(connector_record("c", {}), records[1], records[2])
    assert state.inconsistent == {"c"}
    assert state.tasks("c") == []
    for offset, record in enumerate(task_records("c", [{"a": "3"}]), 5):
        state.replay(*record, offset)
    assert not state.inconsistent
    assert state.tasks("c") == [TaskId("c", 0)]


def test_fewer_tasks_replace_more() -> None:
    state = replayed(
        connector_record("c", {}), *task_records("c", [{}, {}, {}]), *task_records("c", [{"b": "1"}])
    )
    assert state.configs_of_tasks("c") == [{"b": "1"}]


def test_a_deleted_connector_leaves_nothing() -> None:
    state = replayed(
        connector_record("a-b", {}), *task_records("a-b", [{}]), target_record("a-b", State.PAUSED)
    )
    changes = [change for record in removal_records("a-b") for change in state.replay(*record, 9)]
    assert changes == [ConnectorRemoved("a-b")]
    assert (state.connectors, state.task_configs, state.task_counts, state.targets) == ({}, {}, {}, {})


def test_target_states_of_older_workers_are_read() -> None:
    state = ConfigsState()
    assert state.replay("target-state-c", b'{"state":"PAUSED"}', 0) == (TargetChanged("c"),)
    assert state.target("c") is State.PAUSED
    assert state.replay(*target_record("c", State.PAUSED), 1) == ()


def test_changes_are_told_and_a_copy_stays() -> None:
    state = ConfigsState()
    assert state.replay(*connector_record("c", {"x": "1"}), 0) == (ConnectorChanged("c"),)
    before = state.copy()
    state.replay(*connector_record("c", {"x": "2"}), 1)
    assert (before.connectors["c"], state.connectors["c"]) == ({"x": "1"}, {"x": "2"})


@given(
    st.sampled_from(
        ["connector-c", "task-c-0", "task-c-x", "commit-c", "target-state-c", "session-key", "what"]
    ),
    st.one_of(st.binary(max_size=40), st.sampled_from([b"[]", b'{"properties":1}', b'{"tasks":"x"}', b"{}"])),
)
def test_whatever_stands_there_is_survived(key: str, value: bytes) -> None:
    state = replayed(connector_record("c", {"x": "1"}))
    state.replay(key, value, 1)
    assert state.offset == 2


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("commit-c", b'{"tasks":Infinity}'),
        ("commit-c", b'{"tasks":-1}'),
        ("commit-c", b'{"tasks":1e300}'),
        ("tasks-fencing-c", b'{"task-count":Infinity}'),
        ("tasks-fencing-c", b'{"task-count":2000000000}'),
        ("session-key", b'{"key":"AAE=","algorithm":"HmacSHA256","creation-timestamp":Infinity}'),
        ("connector-" + "n" * 40_000, b'{"properties":{}}'),
        ("connector-c", b"[" * 100_000),
        ("connector-c", b"\xff\x00"),
        ("connector-c", b'{"properties":[]}'),
        ("target-state-c", b'{"state":"ASLEEP"}'),
        ("task-c-x", b'{"properties":{}}'),
        ("something-of-kafka-5", b"{}"),
    ],
)
def test_no_record_ends_the_reading_or_is_half_taken(key: str, value: bytes) -> None:
    before = [connector_record("c", {"x": "1"}), *task_records("c", [{"a": "1"}]), fencing_record("c", 1)]
    state, expected = replayed(*before, (key, value)), replayed(*before)
    expected.offset = state.offset
    assert state == expected
