"""What Apache Kafka answers to a client that lacks rights: asked once, kept in kafka_refusals.txt, and
compared with by test_kafka_refusals.py.

    PYTHONPATH=tests/unit/handlers python tests/unit/handlers/record_refusals.py     (needs Java; two minutes)

The client is User:ANONYMOUS. It sends each API in every version: without any right, with some Describe, and
with the right to a transactional id and a group. A line of the file has the rights, the API, its versions,
and all error codes of the answer.
"""

from __future__ import annotations

import base64
import contextlib
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from rights_requests import CG, REQUESTS, A, B, G, T, fetch, find_coordinator, init_producer_id, produce

from moldau.broker.handlers import load_all
from moldau.broker.handlers.parts.registry import TABLE
from moldau.common.protocol.frames import frame_request
from moldau.common.protocol.operations import Operation, ResourceType
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record

load_all()

FILE = Path(__file__).parent / "kafka_refusals.txt"
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
TOPIC, GROUP, TRANSACTIONAL_ID = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
OWN_FROM = 21000
"""API keys that Kafka does not have."""
LOGIN = ("SaslHandshake", "SaslAuthenticate")
_ROWS_BY_NAME = (
    "Produce Fetch Metadata DeleteTopics CreateTopics CreatePartitions OffsetCommit OffsetFetch "
    "OffsetDelete DescribeGroups DescribeConfigs IncrementalAlterConfigs DeleteRecords "
    "DescribeProducers AddPartitionsToTxn AddOffsetsToTxn EndTxn TxnOffsetCommit InitProducerId "
    "ListGroups DescribeTopicPartitions DescribeCluster DeleteGroups DescribeTransactions "
    "ListTransactions "
)


class Stage(NamedTuple):
    """Rights that are given in addition, and the APIs that are asked then; None: all."""

    name: str
    rights: tuple[tuple[Operation, ResourceType, str], ...]
    apis: frozenset[str] | None


STAGES = (
    Stage("none", (), None),
    Stage(
        "describe",
        (
            *((DESCRIBE, TOPIC, name) for name in (A, B, "fresh")),
            (DESCRIBE, GROUP, G),
            (READ, GROUP, CG),
            (DESCRIBE, TRANSACTIONAL_ID, T),
        ),
        frozenset(_ROWS_BY_NAME.split()),
    ),
    Stage(
        "partly",
        ((WRITE, TRANSACTIONAL_ID, T), (READ, GROUP, G)),
        frozenset({"Produce", "AddPartitionsToTxn", "TxnOffsetCommit", "OffsetCommit", "OffsetDelete"}),
    ),
)
VARIANTS: dict[str, dict[str, Callable[[Any, int], Any]]] = {
    "Produce": {"-plain": lambda world, version: produce(world, version, transactional=False)},
    "Fetch": {"-follower": lambda world, version: fetch(world, version, replica_id=2)},
    "FindCoordinator": {"-transactional": lambda world, version: find_coordinator(world, version, kind=1)},
    "InitProducerId": {"-idempotent": lambda world, version: init_producer_id(world, version, name=None)},
}


class Named:
    """The names that requests need: for `rights_requests.py`, where nothing else is there."""

    def __init__(self, ids: dict[str, bytes], folder: str) -> None:
        self.node = SimpleNamespace(
            broker=SimpleNamespace(settings=SimpleNamespace(data_directories=[folder]))
        )
        self.producer_id, self.producer_epoch, self.member_id = 1000, 0, "m" * 22
        self._ids, self._groups = ids, 0

    def fresh_topic(self) -> str:
        return "fresh"

    def fresh_group(self) -> str:
        self._groups += 1
        return f"new-{self._groups}"

    def id_of(self, topic: str) -> bytes:
        return self._ids[topic]

    def open_share_session(self) -> None:
        """Nobody here has the right to one."""

    def batch(self, producer_id: int = -1, producer_epoch: int = -1) -> bytes:
        records = [Record(0, int(time.time() * 1000), None, b"v", ())]
        if producer_id < 0:
            return bytes(build_batch(records))
        return bytes(
            build_batch(
                records,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=0,
                transactional=True,
            )
        )


def requests_of(stage: Stage, world: Named) -> Iterator[tuple[str, int, Any]]:
    """The stage's requests: name, version, message."""
    for _, entry in sorted(TABLE.items()):
        if (
            entry.api_key >= OWN_FROM
            or entry.name in LOGIN
            or (stage.apis is not None and entry.name not in stage.apis)
        ):
            continue
        makes = {"": REQUESTS[entry.name], **VARIANTS.get(entry.name, {})}
        for suffix, make in makes.items():
            for version in range(entry.min_version, entry.max_version + 1):
                if suffix != "-transactional" or version:
                    yield entry.name + suffix, version, make(world, version)


Answers = dict[tuple[str, str, int], frozenset[int]]
"""By stage, name and version: the error codes."""


def written(answers: Answers) -> str:
    """The file's text."""
    lines: list[list[Any]] = []
    for (stage, name, version), codes in answers.items():
        row = [stage, name, version, version, " ".join(map(str, sorted(codes))) or "0"]
        if lines and lines[-1][:2] == row[:2] and lines[-1][3:] == [version - 1, row[4]]:
            lines[-1][3] = version
        else:
            lines.append(row)
    return "".join(f"{stage} {name} {low}-{high} {codes}\n" for stage, name, low, high, codes in lines)


def read() -> Answers:
    """What the file says."""
    answers: Answers = {}
    for line in FILE.read_text().splitlines():
        stage, name, versions, *codes = line.split()
        low, high = map(int, versions.split("-"))
        for version in range(low, high + 1):
            answers[stage, name, version] = frozenset(map(int, codes)) - {0}
    return answers


def _exchange(port: int, request: Any, version: int) -> Any:
    entry = TABLE[type(request).KEY]
    with contextlib.closing(socket.create_connection(("127.0.0.1", port), timeout=10)) as connection:
        connection.sendall(frame_request(entry.api_key, version, 7, "test", request.encode(version)))
        data = b""
        while len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
            received = connection.recv(1 << 16)
            if not received:
                raise ConnectionError(f"{entry.name} v{version} has no answer")
            data += received
    flexible = version >= entry.flexible_from and entry.name != "ApiVersions"
    return type(request).RESPONSE.decode(data[9 if flexible else 8 :], version)


def record() -> None:
    """Ask Apache Kafka, and write the file."""
    from confluent_kafka import TopicCollection, admin
    from rights_world import errors_in

    from bench.brokers import ApacheKafka
    from bench.secured import running

    answers: Answers = {}
    with running(ApacheKafka, "PLAINTEXT", "MUTUAL") as broker:
        root = admin.AdminClient(broker.admin_settings())
        for made in root.create_topics([admin.NewTopic(name, 2, 1) for name in (A, B)]).values():
            made.result(30)
        described = root.describe_topics(TopicCollection([A, B]))
        ids = {name: _id_bytes(future.result(30)) for name, future in described.items()}
        world = Named(ids, str(broker.log_dir()))
        for stage in STAGES:
            acls = [
                admin.AclBinding(
                    admin.ResourceType[{TRANSACTIONAL_ID: "TRANSACTIONAL_ID"}.get(kind, kind.name)],
                    name,
                    admin.ResourcePatternType.LITERAL,
                    "User:ANONYMOUS",
                    "*",
                    admin.AclOperation[operation.name],
                    admin.AclPermissionType.ALLOW,
                )
                for operation, kind, name in stage.rights
            ]
            for created in root.create_acls(acls).values() if acls else ():
                created.result(30)
            time.sleep(1)  # until the broker has them: nothing tells a client
            for name, version, request in requests_of(stage, world):
                answer = _exchange(broker.ports["PLAINTEXT"], request, version)
                answers[stage.name, name, version] = frozenset(errors_in(answer))
    FILE.write_text(written(answers))


def _id_bytes(description: Any) -> bytes:
    text = str(description.topic_id)
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


if __name__ == "__main__":
    sys.exit(record())
