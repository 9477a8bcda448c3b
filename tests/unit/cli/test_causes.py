"""Why a command failed, asked of brokers that answer with each reason."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.broker.monitor.conditions import CONDITIONS
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from moldau.common.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from moldau.common.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from moldau.common.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from moldau.common.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from moldau.common.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from moldau.tools.cluster.server_file import KEPT, write_settings
from moldau.tools.doctor.findings import Finding, Grade, Report
from moldau.tools.doctor.partitions import check_batches
from moldau.tools.shared import causes, connection
from moldau.tools.shared.admin import select_names
from moldau.tools.shared.causes import why_no_topic, why_not_read, why_not_written, why_stalled, with_cause
from moldau.tools.shared.connection import Connection
from moldau.tools.shared.errors import ADVICE, CommandError
from moldau.tools.shared.own_health import own_http, serves

GIB = 1 << 30


class Cluster:
    """Brokers that answer as told; in place of a connection."""

    def __init__(self) -> None:
        self.addresses = [("127.0.0.1", 9092)]
        self.extra_settings: dict[str, str] = {}
        self.leader, self.in_sync, self.controller = 1, [1, 2, 3], 1
        self.topic_error: int = 0
        self.row: int = ErrorCode.CORRUPT_MESSAGE
        self.sentence = ""
        self.fetch_error = 0
        self.group_error: int = 0
        self.throttle_ms = 0
        self.free_bytes = GIB
        self.disk_error = 0
        self.silent = False
        self.written: list[Any] = []
        self.listener = ""
        self.limited = nullcontext

    def ask(self, address: tuple[str, int], request: Any, version: int) -> Any:
        answers: dict[type, Callable[[Any], Any]] = {
            MetadataRequest: self._metadata,
            ProduceRequest: self._produce,
            FetchRequest: self._fetch,
            DescribeLogDirsRequest: self._log_dirs,
            DescribeConfigsRequest: self._configs,
            DescribeGroupsRequest: lambda request: DescribeGroupsResponse(
                groups=[DescribedGroup(error_code=self.group_error, group_id=request.groups[0])]
            ),
        }
        if self.silent and not isinstance(request, MetadataRequest):
            raise CommandError("the broker at 127.0.0.1:9092 did not answer: timed out")
        answer = answers[type(request)](request)
        request.encode(version)
        return type(request).RESPONSE.decode(answer.encode(version), version)

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        assert not request.allow_auto_topic_creation or not request.topics, "a question makes no topic"
        partition = MetadataResponsePartition(
            partition_index=0, leader_id=self.leader, replica_nodes=[1, 2, 3], isr_nodes=self.in_sync
        )
        broken = bool(self.topic_error)
        topic = MetadataResponseTopic(
            error_code=self.topic_error, name="orders", partitions=[] if broken else [partition]
        )
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=9092)],
            controller_id=self.controller,
            topics=[] if request.topics == [] else [topic],
        )

    def _produce(self, request: ProduceRequest) -> ProduceResponse:
        self.written.append(bytes(request.topic_data[0].partition_data[0].records or b""))
        row = PartitionProduceResponse(index=0, error_code=self.row, error_message=self.sentence)
        return ProduceResponse(
            responses=[TopicProduceResponse(name="orders", partition_responses=[row])],
            throttle_time_ms=self.throttle_ms,
        )

    def _fetch(self, request: FetchRequest) -> FetchResponse:
        row = PartitionData(partition_index=0, error_code=self.fetch_error)
        return FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=[row])])

    def _log_dirs(self, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
        row = DescribeLogDirsResult(
            error_code=self.disk_error, log_dir="/data", total_bytes=GIB, usable_bytes=self.free_bytes
        )
        return DescribeLogDirsResponse(results=[row])

    def _configs(self, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        rows = [DescribeConfigsResourceResult(name="moldau.http.listener", value=self.listener)]
        return DescribeConfigsResponse(results=[DescribeConfigsResult(resource_type=4, configs=rows)])


REASONS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({}, ()),
    ({"topic_error": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}, ("there is no topic 'orders'", "topics create")),
    ({"topic_error": ErrorCode.TOPIC_AUTHORIZATION_FAILED}, ("no right", "TOPIC_AUTHORIZATION_FAILED")),
    ({"leader": -1}, ("orders-0 has no leader", "start broker 2 or 3")),
    (
        {"row": ErrorCode.NOT_ENOUGH_REPLICAS, "in_sync": [1]},
        ("1 of 3 replicas in sync", "min.insync.replicas", "broker 2, 3"),
    ),
    ({"row": ErrorCode.TOPIC_AUTHORIZATION_FAILED}, ("may not", "TOPIC_AUTHORIZATION_FAILED", "log in")),
    (
        {"row": ErrorCode.KAFKA_STORAGE_ERROR, "free_bytes": 0},
        ("disk of /data on broker 1 is full", "free space"),
    ),
    ({"free_bytes": 4096}, ("disk of /data on broker 1 is full (4,096 bytes free)",)),
    ({"row": ErrorCode.KAFKA_STORAGE_ERROR, "disk_error": 56}, ("/data of broker 1 is offline", "dmesg")),
    (
        {"row": ErrorCode.KAFKA_STORAGE_ERROR, "sentence": "not writable"},
        ("KAFKA_STORAGE_ERROR", "not writable"),
    ),
    ({"row": ErrorCode.NOT_LEADER_OR_FOLLOWER}, ("broker 1 refuses orders-0", "NOT_LEADER_OR_FOLLOWER")),
    ({"row": ErrorCode.POLICY_VIOLATION, "sentence": "read-only"}, ("POLICY_VIOLATION", "read-only")),
    ({"throttle_ms": 900}, ("900 ms by a quota", "moldau quotas")),
    ({"silent": True}, ("broker 1, which leads orders-0, does not answer",)),
]


@pytest.mark.parametrize(("state", "words"), REASONS)
def test_why_records_are_not_accepted(state: dict[str, Any], words: tuple[str, ...]) -> None:
    cluster = Cluster()
    vars(cluster).update(state)
    said = why_not_written(cluster, "orders", 0)  # type: ignore[arg-type]
    assert bool(said) == bool(words)
    assert all(word in said for word in words), said


def test_the_question_writes_nothing() -> None:
    """A batch with a right checksum would be appended."""
    from moldau.common.records.batch import BatchView

    cluster = Cluster()
    why_not_written(cluster, "orders", -1)  # type: ignore[arg-type]
    (batch,) = cluster.written
    assert not BatchView(memoryview(batch)).crc_is_valid()


def test_a_partition_that_is_not_there() -> None:
    assert "and no 7" in why_not_written(Cluster(), "orders", 7)  # type: ignore[arg-type]


def test_why_nothing_is_read() -> None:
    cluster: Any = Cluster()
    assert why_not_read(cluster, "orders", 0) == ""
    cluster.fetch_error = ErrorCode.KAFKA_STORAGE_ERROR
    assert "KAFKA_STORAGE_ERROR" in why_not_read(cluster, "orders", 0)
    cluster.leader = -1
    assert "no leader" in why_not_read(cluster, "orders", 0)


def test_a_topic_that_may_not_be_seen_is_not_said_to_be_missing() -> None:
    cluster: Any = Cluster()
    cluster.topic_error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(CommandError, match=r"no right to see the topic orders.*TOPIC_AUTHORIZATION_FAILED"):
        select_names(["orders"], [], what="topic", connection=cluster)
    cluster.topic_error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert why_no_topic(cluster, "orders") == ""
    with pytest.raises(CommandError, match="there is no topic 'orders'"):
        select_names(["orders"], [], what="topic", connection=cluster)


def test_a_group_that_may_not_be_seen_is_not_said_to_be_missing() -> None:
    cluster: Any = Cluster()
    cluster.group_error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    with pytest.raises(CommandError, match=r"no right to see the group billing.*GROUP_AUTHORIZATION_FAILED"):
        select_names(["billing"], [], what="group", connection=cluster)
    for other in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR):
        cluster.group_error = other
        with pytest.raises(CommandError, match="there is no group 'billing'"):
            select_names(["billing"], [], what="group", connection=cluster)
    cluster.silent = True
    with pytest.raises(CommandError, match="there is no group 'billing'"):
        select_names(["billing"], [], what="group", connection=cluster)


def test_why_changes_are_late(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster: Any = Cluster()
    assert why_stalled(cluster) == ""
    cluster.leader = 3
    assert "orders-0 has no leader" in why_stalled(cluster)
    cluster.free_bytes = 0
    assert "is full" in why_stalled(cluster)
    cluster.controller = -1
    assert "no controller" in why_stalled(cluster)
    health = {"metadata_store": {"name": "ZooKeeper at z:2181", "up": False, "since_seconds": 3}}
    monkeypatch.setattr("moldau.tools.shared.own_health.own_health", lambda connection: health)
    assert "ZooKeeper at z:2181 is not reached for 3 s: look at" in why_stalled(cluster)
    cause = {"name": "metadata-store-lost", "message": "ZooKeeper is not reached", "remedy": "Mend it."}
    health["causes"] = [cause]  # type: ignore[assignment]
    assert why_stalled(cluster) == "ZooKeeper is not reached: Mend it."


def test_the_doctor_names_batches_that_the_broker_knows_to_be_unreadable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert {causes.UNREADABLE_CAUSE, *causes.STORE_CAUSES} <= set(CONDITIONS)
    found: list[Finding] = []
    cluster: Any = Cluster()
    for health in (None, {"causes": [{"name": "disk-nearly-full", "message": "x", "remedy": "y"}]}):
        monkeypatch.setattr(
            "moldau.tools.shared.own_health.own_health", lambda connection, health=health: health
        )
        check_batches(Report(found.append), cluster)
    assert found == []
    message = "no consumer can read: orders-2 at offset 42 (no zstd)"
    told = {"causes": [{"name": "batches-unreadable", "message": message, "remedy": "Go on behind it."}]}
    monkeypatch.setattr("moldau.tools.shared.own_health.own_health", lambda connection: told)
    check_batches(Report(found.append), cluster)
    assert found == [Finding("records", Grade.WARNING, message, "Go on behind it.")]


def test_only_errors_that_say_little_are_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes, "why_stalled", lambda connection, **_: "the disk is full")
    cluster: Any = SimpleNamespace(causes={}, limited=nullcontext)
    late = f"Timed out (_TIMED_OUT): {ADVICE['_TIMED_OUT']}"
    assert with_cause(late, "_TIMED_OUT", cluster) == "Timed out (_TIMED_OUT): the disk is full"
    assert with_cause(late, "_TIMED_OUT", None) == late
    said = "The change was not made: the disk is full (REQUEST_TIMED_OUT)"
    monkeypatch.setattr(causes, "why_stalled", lambda connection, **_: "the disk is full: free space")
    cluster = SimpleNamespace(causes={}, limited=nullcontext)
    assert with_cause(said, "REQUEST_TIMED_OUT", cluster) == f"{said}: free space"
    assert with_cause("Refused (X)", "INVALID_CONFIG", cluster) == "Refused (X)"


def test_a_cause_is_looked_for_once_however_many_changes_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def looked(connection: Any, *, coordinators: bool) -> str:
        asked.append(coordinators)
        return "" if coordinators else "the disk is full"

    monkeypatch.setattr(causes, "why_stalled", looked)
    monkeypatch.setattr(causes, "_no_coordinator", lambda connection: "")
    cluster: Any = SimpleNamespace(causes={}, limited=nullcontext)
    for topic in range(3):
        assert with_cause(f"{topic}: late", "_TIMED_OUT", cluster) == f"{topic}: late: the disk is full"
        assert with_cause(f"{topic}: late", "NOT_COORDINATOR", cluster) == f"{topic}: late"
    assert asked == [False, True]


@pytest.mark.parametrize(
    ("listener", "http"),
    [("127.0.0.1:9640", "127.0.0.1:9640"), ("0.0.0.0:1", "127.0.0.1:1"), ("", ""), ("127.0.0.1:0", "")],
)
def test_a_brokers_own_page_is_found(listener: str, http: str) -> None:
    cluster: Any = Cluster()
    cluster.listener = listener
    assert own_http(cluster) == http


def test_another_brokers_page_is_not_taken_for_it() -> None:
    page = {"listeners": {"PLAINTEXT": "127.0.0.1:9092"}}
    assert serves(page, [("127.0.0.1", 9092)])
    assert not serves(page, [("127.0.0.1", 9999)])
    assert serves({}, [("127.0.0.1", 9999)]), "it does not tell, as one that starts"


def test_lines_written_by_hand_are_kept_and_named(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    assert write_settings(file, {"node.id": "1", "a": "1"}) == []
    assert write_settings(file, {"node.id": "1", "a": "2"}) == [], "a new plan is no change by hand"
    file.write_text(file.read_text() + "log.retention.hours=5\n")
    edited = file.read_text()
    assert write_settings(file, {"node.id": "1", "a": "2"}) == ["log.retention.hours"]
    assert file.with_name(file.name + KEPT).read_text() == edited
    assert "retention" not in file.read_text()
    assert write_settings(file, {"node.id": "1", "a": "2"}) == []


def test_the_file_of_an_earlier_version_is_told_by_its_names(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("node.id=1\na=1\nmine=2\n")
    assert write_settings(file, {"node.id": "1", "a": "2"}) == ["mine"]


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT", "SSL"])
def test_brokers_that_hang_do_not_make_a_look_up_long(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "QUESTION_SECONDS", 0.3)
    monkeypatch.setattr(connection, "LOOK_UP_SECONDS", 0.6)
    monkeypatch.setattr(Connection, "_require_login", lambda self: None)
    login = ["sasl.mechanism=PLAIN", "sasl.username=a", "sasl.password=b"] if "SASL" in protocol else []
    with ExitStack() as held:
        servers = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(4)]
        named = ",".join(f"127.0.0.1:{each.getsockname()[1]}" for each in servers)
        asking = Connection(named, [f"security.protocol={protocol}", *login], timeout_seconds=60)
        started = time.monotonic()
        assert why_not_written(asking, "orders", 0).startswith("no broker answers in time")
        assert 0.5 < time.monotonic() - started < 3
        assert asking.question_seconds == 60, "a command's own questions have its own time"


def test_a_broker_that_was_not_asked_is_not_said_to_be_silent() -> None:
    cluster: Any = Cluster()

    def ask(address: Any, request: Any, version: int) -> Any:
        if isinstance(request, MetadataRequest):
            return Cluster.ask(cluster, address, request, version)
        raise connection.NoTimeLeft("the cause was not found within 6 s")

    cluster.ask = ask
    assert why_not_written(cluster, "orders", 0) == ""
