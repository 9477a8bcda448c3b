"""Records that Kafka Connect 4.3.1 wrote (recorded), read by ours and written by ours, byte by byte.

Beside this, once by hand (2026-11-24): a worker of connect-runtime 4.3.1 with a FileStream source and sink
on our broker; taken over by ours with its topics and group, and given back; every line once, in order, at
each step.
"""

from moldau.services.connect.herder.tasks import task_class, task_configs
from moldau.services.connect.runtime.interface import State, TaskId
from moldau.services.connect.stores.configs import (
    ConfigsState,
    SessionKey,
    connector_record,
    fencing_record,
    session_key_record,
    target_record,
    task_records,
)
from moldau.services.connect.stores.offsets import KnownOffset, OffsetsState
from moldau.services.connect.stores.statuses import (
    StatusesState,
    TopicUse,
    WorkerStatus,
    connector_status_record,
    task_status_record,
    topic_record,
)

_SOURCE = "org.apache.kafka.connect.file.FileStreamSource"
CONFIGS = [
    (
        "session-key",
        b'{"key":"aKms7WXygKXO/SuzMJq0FdPwqGzCj2UaJsg9Oy3YeCU=","algorithm":"HmacSHA256",'
        b'"creation-timestamp":1795537562173}',
    ),
    (
        "connector-src",
        b'{"properties":{"connector.class":"org.apache.kafka.connect.file.FileStreamSourceConnector",'
        b'"file":"/run/in.txt","topic":"klines","tasks.max":"1","name":"src"}}',
    ),
    (
        "task-src-0",
        b'{"properties":{"connector.class":"org.apache.kafka.connect.file.FileStreamSourceConnector",'
        b'"file":"/run/in.txt","task.class":"org.apache.kafka.connect.file.FileStreamSourceTask",'
        b'"tasks.max":"1","name":"src","topic":"klines"}}',
    ),
    ("commit-src", b'{"tasks":1}'),
    ("tasks-fencing-src", b'{"task-count":1}'),
    ("target-state-src", b'{"state":"PAUSED","state.v2":"PAUSED"}'),
]
OFFSET = (b'["src",{"filename":"/run/in.txt"}]', b'{"position":292}')
STATUSES = [
    (
        "status-connector-src",
        b'{"state":"RUNNING","trace":null,"worker_id":"127.0.0.1:18083","generation":3,"version":"4.3.1"}',
    ),
    (
        "status-topic-klines:connector-src",
        b'{"topic":{"name":"klines","connector":"src","task":0,"discoverTimestamp":1795537583855}}',
    ),
    (
        "status-task-src-0",
        b'{"state":"UNASSIGNED","trace":null,"worker_id":"127.0.0.1:18083","generation":4,"version":null}',
    ),
]


def test_kafkas_configuration_is_read_and_written_as_it_was() -> None:
    state = ConfigsState()
    for offset, (key, value) in enumerate(CONFIGS):
        state.replay(key, value, offset)
    assert state.target("src") is State.PAUSED
    assert state.tasks("src") == [TaskId("src", 0)]
    assert isinstance(state.session_key, SessionKey)
    written = [
        session_key_record(state.session_key),
        connector_record("src", state.connectors["src"]),
        *task_records("src", state.configs_of_tasks("src")),
        fencing_record("src", state.fenced_counts["src"]),
        target_record("src", state.target("src")),
    ]
    assert written == CONFIGS


def test_kafkas_offsets_and_states_are_read_and_written_as_they_were() -> None:
    offsets, statuses = OffsetsState(), StatusesState()
    offsets.replay(*OFFSET)
    (known,) = offsets.offsets("src")
    assert known == KnownOffset({"filename": "/run/in.txt"}, {"position": 292})
    assert offsets.records("src", [known]) == [OFFSET]
    for record in STATUSES:
        statuses.replay(*record)
    use = statuses.topics["src"]["klines"]
    assert use == TopicUse("klines", "src", 0, 1795537583855)
    running = WorkerStatus(State.RUNNING, "127.0.0.1:18083", 3, "", "4.3.1")
    assert statuses.connectors["src"] == running
    written = [
        connector_status_record("src", running),
        topic_record(use),
        task_status_record(TaskId("src", 0), statuses.tasks[TaskId("src", 0)]),
    ]
    assert written == STATUSES


def test_tasks_keep_the_class_that_kafkas_worker_needs() -> None:
    config = {"connector.class": f"{_SOURCE}Connector", "file": "x"}
    assert task_class(config, []) == f"{_SOURCE}Task"
    before = [{**config, "task.class": "other.Task"}]
    assert task_class(config, before) == "other.Task"
    assert task_class({"connector.class": "FileStreamSource"}, before) is None
    (made,) = task_configs(config, config, [{"part": "0"}], "other.Task")
    assert made == {**config, "task.class": "other.Task", "part": "0"}
