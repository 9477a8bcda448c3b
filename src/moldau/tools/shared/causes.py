"""Why the cluster does not do what a command asked for, where librdkafka only says that time is up.

librdkafka repeats what a broker refuses for the moment and keeps the reason to itself: a full disk, too few
in-sync replicas and a missing leader all end as _MSG_TIMED_OUT. And a list of all topics leaves out those
that a user may not see, as if they did not exist. So a command that has failed asks again, by our own codec:

    Metadata of the one topic ──> unknown, no right, no leader
        │ its leader
        v
    Produce or Fetch ──> the broker's code and sentence ──> where it tells of a disk: DescribeLogDirs

The Produce writes nothing: its batch has a wrong checksum. A leader looks at rights, leadership, in-sync
replicas and the disk before the checksum, so CORRUPT_MESSAGE says that it would write now.

Every function returns "" where nothing is found; none raises. Brokers that hang are waited for a few seconds
in all (`Connection.limited`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec

from moldau.client.errors import error_words
from moldau.common.protocol.errors import ErrorCode
from moldau.tools.shared.connection import NoTimeLeft
from moldau.tools.shared.errors import ADVICE, CommandError

if TYPE_CHECKING:
    from moldau.tools.shared.connection import Connection

LIBRDKAFKA_GAVE_UP = frozenset(
    {
        "_MSG_TIMED_OUT",
        "_TIMED_OUT",
        "_TIMED_OUT_QUEUE",
        "_ALL_BROKERS_DOWN",
        "_TRANSPORT",
        "_UNKNOWN_PARTITION",
    }
)
"""librdkafka's own errors, behind which a broker's answer may stand."""

LATE = LIBRDKAFKA_GAVE_UP | {
    "REQUEST_TIMED_OUT",
    "COORDINATOR_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "NOT_COORDINATOR",
    "NOT_CONTROLLER",
    "KAFKA_STORAGE_ERROR",
}
"""Errors that say that something was not done in time, and not why."""

UNEXPLAINED = LIBRDKAFKA_GAVE_UP | {"POLICY_VIOLATION"}
"""Errors of a produced record behind which the broker has a sentence (a mirror is read-only)."""

_UNAUTHORIZED = "TOPIC_AUTHORIZATION_FAILED"
_CODES = {int(code): code.name for code in ErrorCode}
STORE_CAUSES = frozenset({"metadata-store-lost", "metadata-store-slow", "no-controller", "starting"})
UNREADABLE_CAUSE = "batches-unreadable"
_STORE_REMEDY = (
    "look at the ZooKeeper ensemble (a majority of its members must live), and at the network to it"
)
_NO_TOPICS = ""
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state")
ROOM_BYTES_MIN = 4 * 1024 * 1024
"""A disk with less is taken for full, as a broker of ours does."""

_METADATA_VERSION, _PRODUCE_VERSION, _FETCH_VERSION, _LOG_DIRS_VERSION = 5, 8, 5, 4
_DESCRIBE_GROUPS_VERSION = 0


class Place(NamedTuple):
    """A partition and the broker that leads it; `trouble` says why there is none."""

    trouble: str
    node_id: int = -1
    address: tuple[str, int] = ("", 0)
    partition: Any = None


_Rest = ParamSpec("_Rest")


def _in_time(
    look_up: Callable[Concatenate[Connection, _Rest], str],
) -> Callable[Concatenate[Connection, _Rest], str]:
    @wraps(look_up)
    def limited(connection: Connection, /, *args: _Rest.args, **kwargs: _Rest.kwargs) -> str:
        with connection.limited():
            return look_up(connection, *args, **kwargs)

    return limited


@_in_time
def why_no_topic(connection: Connection, topic: str) -> str:
    """Why a topic is not among those the user sees: it does not exist, or a right is missing."""
    answer = _metadata(connection, topic)
    if answer is None or not answer.topics:
        return ""
    code = answer.topics[0].error_code
    return (
        "" if code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) else _topic_trouble(topic, code)
    )


@_in_time
def why_no_group(connection: Connection, group: str) -> str:
    """Why a group is not among those the user sees: it does not exist (""), or a right is missing."""
    from moldau.common.protocol.messages.describe_groups import DescribeGroupsRequest

    try:
        answer = connection.ask(
            connection.addresses[0], DescribeGroupsRequest(groups=[group]), _DESCRIBE_GROUPS_VERSION
        )
    except CommandError:
        return ""
    if all(each.error_code != ErrorCode.GROUP_AUTHORIZATION_FAILED for each in answer.groups):
        return ""
    advice = ADVICE["GROUP_AUTHORIZATION_FAILED"]
    return f"you have no right to see the group {group} (GROUP_AUTHORIZATION_FAILED): {advice}"


@_in_time
def why_not_written(connection: Connection, topic: str, partition: int) -> str:
    """Why records are not accepted; a partition below zero stands for any."""
    from moldau.common.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

    place = _leader_of(connection, topic, partition)
    if place.trouble or place.partition is None:
        return place.trouble
    index = place.partition.partition_index
    data = PartitionProduceData(index=index, records=_probe_batch())
    request = ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )
    try:
        answer = connection.ask(place.address, request, _PRODUCE_VERSION)
    except CommandError as problem:
        return _silent(topic, place, problem)
    row = answer.responses[0].partition_responses[0]
    if row.error_code == ErrorCode.CORRUPT_MESSAGE:
        if answer.throttle_time_ms:
            return (
                f"broker {place.node_id} holds this client back for {answer.throttle_time_ms} ms by a quota: "
                "`moldau quotas list` shows it"
            )
        # A disk may have room for this little batch, and none for what was sent.
        return disk_trouble(connection, place.node_id, place.address)
    return _partition_trouble(connection, topic, place, row.error_code, row.error_message or "")


@_in_time
def why_not_read(connection: Connection, topic: str, partition: int) -> str:
    """Why nothing is read from a partition."""
    from moldau.common.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

    place = _leader_of(connection, topic, partition)
    if place.trouble or place.partition is None:
        return place.trouble
    index = place.partition.partition_index
    wanted = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1)
    request = FetchRequest(max_bytes=1, topics=[FetchTopic(topic=topic, partitions=[wanted])])
    try:
        answer = connection.ask(place.address, request, _FETCH_VERSION)
    except CommandError as problem:
        return _silent(topic, place, problem)
    code = answer.responses[0].partitions[0].error_code
    if code in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
        return ""
    return _partition_trouble(connection, topic, place, code, "")


@_in_time
def why_stalled(connection: Connection, *, coordinators: bool = False) -> str:
    """Why changes, or `coordinators`' answers, do not come in time: what a broker's health page says, no
    controller, a disk, a partition without a leader.
    """
    answer = _metadata(connection, _NO_TOPICS)
    if answer is None:
        return _unreached(connection)
    if failing := _failing_store(connection):
        return failing
    if answer.controller_id < 0:
        return (
            "the cluster has no controller: `moldau status` names the cause (ZooKeeper is not reached, or "
            "the brokers are starting)"
        )
    for each in answer.brokers:
        if disk := disk_trouble(connection, each.node_id, (each.host, each.port)):
            return disk
    return _first_leaderless(connection, only_internal=coordinators)


def _unreached(connection: Connection) -> str:
    """Why no bootstrap address answers: the first step of a connection that fails (TLS, a login, a name)."""
    from moldau.tools.doctor.handshake import Trouble, reach
    from moldau.tools.doctor.transport import transport_of

    try:
        for host, port in connection.addresses:
            seconds = connection.question_seconds
            reach(host, port, transport_of(connection.given, seconds), seconds)
    except Trouble as trouble:
        return f"{trouble.message}: {trouble.remedy}; `moldau doctor` looks closer"
    except NoTimeLeft:
        return "no broker answers in time: see its log; `moldau doctor` looks closer"
    except CommandError:
        pass
    return "no broker answers any more: see its log; `moldau doctor` looks closer"


def _failing_store(connection: Connection) -> str:
    for message, remedy in store_troubles(connection):
        return f"{message}: {remedy}"
    return ""


def store_troubles(connection: Connection) -> list[tuple[str, str]]:
    """What the broker's health page says about the store of the metadata, which no API of Kafka tells: facts
    and remedies.
    """
    from moldau.tools.shared.own_health import own_health

    health = own_health(connection) or {}
    store = health.get("metadata_store") or {}
    found = [
        (each["message"], each["remedy"])
        for each in health.get("causes", ())
        if each.get("name") in STORE_CAUSES
    ]
    if not found and store.get("up") is False:  # too short a time ago to be a cause already
        return [(f"{store.get('name')} is not reached for {store.get('since_seconds')} s", _STORE_REMEDY)]
    return found


def unreadable_batches(connection: Connection) -> list[tuple[str, str]]:
    """Batches that no consumer can read, as far as the broker at the bootstrap address has met them: facts
    and remedies.
    """
    from moldau.tools.shared.own_health import own_health

    health = own_health(connection) or {}
    return [
        (each["message"], each["remedy"])
        for each in health.get("causes", ())
        if each.get("name") == UNREADABLE_CAUSE
    ]


def _first_leaderless(connection: Connection, *, only_internal: bool) -> str:
    answer = _metadata(connection, None)
    if answer is None:
        return ""
    brokers = {each.node_id: (each.host, each.port) for each in answer.brokers}
    for topic in sorted(answer.topics, key=lambda each: not each.is_internal):
        for partition in topic.partitions if topic.is_internal or not only_internal else ():
            if partition.leader_id not in brokers:
                return _leaderless(topic.name, partition, brokers)
    return ""


def with_cause(sentence: str, error_name: str, connection: Connection | None) -> str:
    """The message for an error, with what the cluster says about it where the error itself says nothing."""
    if connection is None or error_name not in LATE:
        return sentence
    coordinators = "COORDINATOR" in error_name
    found = connection.causes  # a command may fail for each of many topics, and each question take its time
    if coordinators not in found:
        with connection.limited():
            cause = why_stalled(connection, coordinators=coordinators)
            found[coordinators] = cause or (_no_coordinator(connection) if coordinators else "")
    cause = found[coordinators]
    if not cause:
        return sentence
    fact, _, remedy = cause.partition(": ")
    if fact.partition(" for ")[0] in sentence:  # the broker has said it by itself
        return f"{sentence}: {remedy}"
    general = ADVICE.get(error_name)  # the advice for any cause gives way to the cause
    return f"{sentence.removesuffix(f': {general}') if general else sentence}: {cause}"


def _no_coordinator(connection: Connection) -> str:
    """A coordinator's topic that is not there: it is made at first use, if there are enough brokers."""
    for topic in INTERNAL_TOPICS:
        answer = _metadata(connection, topic)
        if answer is not None and answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            kind = "offsets.topic" if topic == INTERNAL_TOPICS[0] else "transaction.state.log"
            return (
                f"{topic} does not exist, and {_brokers(len(answer.brokers))}: it is made once there are "
                f"as many as {kind}.replication.factor"
            )
    return ""


def _brokers(count: int) -> str:
    return "one broker is there" if count == 1 else f"{count} brokers are there"


def _probe_batch() -> bytes:
    """A batch of one empty record in version 2 with a checksum that is wrong."""
    from moldau.common.records.builder import build_batch
    from moldau.common.records.record import Record

    batch = bytearray(build_batch([Record(0, 0, None, None, ())]))
    batch[17] ^= (
        0xFF  # the first byte of the crc: | base offset 8 | length 4 | leader epoch 4 | magic 1 | crc 4
    )
    return bytes(batch)


def _metadata(connection: Connection, topic: str | None) -> Any:
    """The first broker's answer about the topic (None: all, _NO_TOPICS: none); None if nobody answers."""
    from moldau.common.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

    topics = None if topic is None else [MetadataRequestTopic(name=topic)] if topic else []
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    for address in connection.addresses:
        try:
            return connection.ask(address, request, _METADATA_VERSION)
        except CommandError:
            continue
    return None


def _leader_of(connection: Connection, topic: str, partition: int) -> Place:
    answer = _metadata(connection, topic)
    if answer is None:
        return Place(why_stalled(connection))
    if not answer.topics:
        return Place("")
    described = answer.topics[0]
    if described.error_code and not described.partitions:
        return Place(_topic_trouble(topic, described.error_code))
    known = {each.partition_index: each for each in described.partitions}
    if partition >= 0 and partition not in known:
        return Place(f"{topic} has the partitions 0 to {len(known) - 1}, and no {partition}")
    chosen = [known[partition]] if partition >= 0 else [known[index] for index in sorted(known)]
    brokers = {each.node_id: (each.host, each.port) for each in answer.brokers}
    for each in chosen:
        if each.leader_id < 0 or each.leader_id not in brokers:
            return Place(_leaderless(topic, each, brokers))
    first = chosen[0]
    return Place("", first.leader_id, brokers[first.leader_id], first)


def _leaderless(topic: str, partition: Any, brokers: dict[int, tuple[str, int]]) -> str:
    away = [node_id for node_id in partition.replica_nodes if node_id not in brokers]
    named = ", ".join(map(str, partition.replica_nodes))
    which = f"start broker {' or '.join(map(str, away))}" if away else "see `moldau status`"
    return (
        f"{topic}-{partition.partition_index} has no leader (LEADER_NOT_AVAILABLE): its replicas are on "
        f"broker {named}; {which}"
    )


def _topic_trouble(topic: str, code: int) -> str:
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return f"you have no right to see the topic {topic} ({_UNAUTHORIZED}): {ADVICE[_UNAUTHORIZED]}"
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return f"there is no topic {topic!r}: {ADVICE['UNKNOWN_TOPIC_OR_PART']}"
    return f"topic {topic}: {error_words(code)}"


def _silent(topic: str, place: Place, problem: CommandError) -> str:
    if isinstance(problem, NoTimeLeft):
        return ""
    named = f"{topic}-{place.partition.partition_index}"
    return f"broker {place.node_id}, which leads {named}, does not answer: {problem}"


def _partition_trouble(connection: Connection, topic: str, place: Place, code: int, sentence: str) -> str:
    """The sentence for a leader's refusal."""
    if not code:
        return ""
    partition = place.partition
    named = f"{topic}-{partition.partition_index}"
    if code in (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND):
        return _too_few_in_sync(named, partition, code)
    if code == ErrorCode.KAFKA_STORAGE_ERROR:
        disk = disk_trouble(connection, place.node_id, place.address)
        if disk:
            return f"{disk} ({error_words(code)})"
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return f"you may not do that with the topic {topic} ({_UNAUTHORIZED}): {ADVICE[_UNAUTHORIZED]}"
    words = f"broker {place.node_id} refuses {named}: {error_words(code)}"
    return f"{words}: {sentence}" if sentence else words


def _too_few_in_sync(named: str, partition: Any, code: int) -> str:
    in_sync, replicas = partition.isr_nodes, partition.replica_nodes
    missing = ", ".join(str(node_id) for node_id in sorted(replicas) if node_id not in in_sync)
    remedy = f"start or mend broker {missing}" if missing else "give it more replicas"
    return (
        f"{named} has {len(in_sync)} of {len(replicas)} replicas in sync, fewer than its min.insync.replicas "
        f"({_CODES.get(code, code)}): {remedy} (`moldau status` names the cause), or lower that setting"
    )


def disk_trouble(connection: Connection, node_id: int, address: tuple[str, int]) -> str:
    """What DescribeLogDirs of a broker says about a full or a failed disk; needs Describe on the cluster."""
    from moldau.common.protocol.messages.describe_log_dirs import DescribeLogDirsRequest

    try:
        answer = connection.ask(address, DescribeLogDirsRequest(topics=[]), _LOG_DIRS_VERSION)
    except CommandError:
        return ""
    for each in answer.results:
        if each.error_code:
            return (
                f"the data directory {each.log_dir} of broker {node_id} is offline: look at the disk (dmesg, "
                "its mount), repair or replace it, and restart the broker"
            )
        if 0 <= each.usable_bytes < ROOM_BYTES_MIN:
            return (
                f"the disk of {each.log_dir} on broker {node_id} is full ({each.usable_bytes:,} bytes free): "
                "free space on it; the broker goes on by itself"
            )
    return ""
