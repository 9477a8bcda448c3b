"""AlterReplicaLogDirs and what DescribeLogDirs tells of it, on a broker with two log directories."""

from pathlib import Path
from typing import Any

from data_plane_world import Client, on_a_node, partition_of, produce_frame
from jumping_time import until

from moldau.broker.handlers.parts.broker import RequestContext
from moldau.broker.handlers.parts.registry import TABLE
from moldau.broker.handlers.parts.session import Session
from moldau.broker.node import Node
from moldau.common.core.slow_lane import all_steps
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from moldau.common.protocol.messages.describe_log_dirs import DescribeLogDirsRequest


def ask(node: Node, request: Any) -> Any:
    entry = TABLE[type(request).KEY]
    context = RequestContext(entry.max_version, 1, Session("PLAINTEXT", client_host="127.0.0.1"))
    assert entry.handler is not None
    return all_steps(entry.handler(node.broker, context, request))  # type: ignore[arg-type]


def move(node: Node, path: str, topic: str, *indexes: int) -> list[int]:
    topics = [AlterReplicaLogDirTopic(name=topic, partitions=list(indexes))]
    answer = ask(node, AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)]))
    return [row.error_code for result in answer.results for row in result.partitions]


def placed(node: Node) -> dict[tuple[str, int], list[tuple[str, bool, int]]]:
    """Of each partition: directory, whether it is a future replica, offset lag."""
    rows: dict[tuple[str, int], list[tuple[str, bool, int]]] = {}
    for result in ask(node, DescribeLogDirsRequest(topics=None)).results:
        assert result.total_bytes >= result.usable_bytes > 0
        for topic in result.topics:
            for row in topic.partitions:
                place = (result.log_dir, row.is_future_key, row.offset_lag)
                rows.setdefault((topic.name, row.partition_index), []).append(place)
    return rows


async def appended(node: Node, client: Client, count: int) -> None:
    before = len(client.answers())
    client.feed(produce_frame("a", 1000) * count)
    await until(lambda: len(client.answers()) == before + count)


def test_a_replica_moves_and_both_copies_are_described_meanwhile(tmp_path: Path) -> None:
    one, two = str(tmp_path / "1"), str(tmp_path / "2")

    async def scene(node: Node) -> None:
        client = Client(node)
        await appended(node, client, 3)
        ((home, _, _),) = placed(node)["a", 0]
        other = two if home == one else one
        node.replicas.folder_quota.bytes_per_second = 0
        node.replicas.folder_quota.record(1)  # it waits
        assert move(node, other, "a", 0) == [0]
        assert placed(node)["a", 0] == [
            (path, path == other, 3 if path == other else 0) for path in (one, two)
        ]
        node.replicas.folder_quota.bytes_per_second = 1 << 40
        await until(lambda: placed(node)["a", 0] == [(other, False, 0)])
        assert partition_of(node, "a").log.directory == f"{other}/a-0"
        await appended(node, client, 2)
        assert partition_of(node, "a").high_watermark == 5

    on_a_node(scene, tmp_path, log_dirs=f"{one},{two}")


def test_what_is_refused(tmp_path: Path) -> None:
    one, two = str(tmp_path / "1"), str(tmp_path / "2")

    async def scene(node: Node) -> None:
        assert move(node, "/nowhere", "a", 0, 1) == [ErrorCode.LOG_DIR_NOT_FOUND] * 2
        assert move(node, one, "x", 0) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert move(node, one, "a", 7) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        directory = node.logs.directories.at(two)
        assert directory is not None
        node.logs.open_logs.report(directory, OSError(5, "simulated"))
        assert move(node, two, "a", 0) == [ErrorCode.KAFKA_STORAGE_ERROR]

    on_a_node(scene, tmp_path, log_dirs=f"{one},{two}")


def test_a_replica_that_is_not_here_yet_is_made_where_it_was_asked_for(tmp_path: Path) -> None:
    one, two = str(tmp_path / "1"), str(tmp_path / "2")

    async def scene(node: Node) -> None:
        topic_id = node.metadata.image.topics["a"].topic_id
        settings = partition_of(node, "a", 1).log.settings
        del node.replicas.by_name_bytes[b"a"][1]
        for path in (one, two, one):
            node.logs.delete_async("a", 1)
            assert move(node, path, "a", 1) == [ErrorCode.REPLICA_NOT_AVAILABLE]
            assert node.logs.create("a", 1, topic_id, settings).directory == f"{path}/a-1"

    on_a_node(scene, tmp_path, log_dirs=f"{one},{two}")


def test_a_directory_is_remembered_before_there_is_such_a_topic(tmp_path: Path) -> None:
    one, two = str(tmp_path / "1"), str(tmp_path / "2")

    async def scene(node: Node) -> None:
        settings = partition_of(node, "a", 1).log.settings
        for number, path in enumerate((one, two, two, one, one, one)):
            assert move(node, path, f"new-{number}", 0) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
            made = node.logs.create(f"new-{number}", 0, bytes([number]) * 16, settings)
            assert made.directory == f"{path}/new-{number}-0"
        assert move(node, one, "not a name", 0) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert move(node, one, "new", -1) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert not node.logs._preferred

    on_a_node(scene, tmp_path, log_dirs=f"{one},{two}")
