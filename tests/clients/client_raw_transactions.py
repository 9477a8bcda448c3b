"""A transactional producer spoken by hand, request by request, so that a test can say the wrong thing.

Each verb takes the version to speak and lets every field be falsified, and answers with Kafka's name of the
error code ("none" where there was none). The object follows the producer id and epoch that the broker gave.
`standing` is what must not have changed after a refusal.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from client_model import Place, eventually
from kio.schema.errors import ErrorCode
from raw_client import RawClient, request_frame

from moldau.common.protocol.messages.describe_transactions import DescribeTransactionsResponse
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record

PRODUCE, FETCH, LIST_OFFSETS, OFFSET_FETCH, FIND_COORDINATOR = 0, 1, 2, 9, 10
INIT_PRODUCER_ID, ADD_PARTITIONS, ADD_OFFSETS, END_TXN, WRITE_MARKERS, OFFSET_COMMIT = 22, 24, 25, 26, 27, 28
DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS = 61, 65, 66
HEADER_BYTES = 5  # of a flexible response: correlation id, no tagged fields
# What clients of transactions v1 speak (librdkafka, KafkaJS, Java before 4.0), and those of v2 (KIP-890).
V1 = {"add": 3, "offsets": 3, "offset_commit": 3, "end": 4, "produce": 11}
V2 = {"add": 3, "offsets": 4, "offset_commit": 5, "end": 5, "produce": 12}


def place_list(
    places: Sequence[Place], name: str = "name", partitions: str = "partitions"
) -> list[dict[str, Any]]:
    """Topic by topic, as most requests want it."""
    topics = dict.fromkeys(topic for topic, _ in places)
    return [{name: topic, partitions: [p for one, p in places if one == topic]} for topic in topics]


class RawProducer:
    """One transactional id on one connection."""

    def __init__(self, raw: RawClient, transactional_id: str) -> None:
        self.raw = raw
        self.transactional_id = transactional_id
        self.producer_id = -1
        self.producer_epoch = -1
        self.sequences: dict[Place, int] = {}

    def __repr__(self) -> str:
        return f"{self.transactional_id} {self.producer_id} {self.producer_epoch}"

    def _who(self, claims: Mapping[str, Any]) -> dict[str, Any]:
        """Who speaks, as far as the test does not claim otherwise."""
        truth = {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
        }
        return truth | claims

    def init(self, version: int = 5, timeout_ms: int = 900_000, **claims: Any) -> str:
        """InitProducerId as a fresh producer asks, which waits out a transaction that is being completed."""
        asked = {"producer_id": -1, "producer_epoch": -1, "transactional_id": self.transactional_id} | claims
        if version < 3:
            asked = {"transactional_id": asked["transactional_id"]}

        def ask() -> Any:
            # Looking for the coordinator is what makes __transaction_state in the first place.
            self.raw.call(FIND_COORDINATOR, 3, key=self.transactional_id, key_type=1)
            answer = self.raw.call(INIT_PRODUCER_ID, version, transaction_timeout=timeout_ms, **asked)
            return None if answer.error_code.name in BUSY else answer

        answer = eventually(ask)
        if answer.error_code.name == "none":
            self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return str(answer.error_code.name)

    def add(self, *places: Place, version: int = V1["add"], verify_only: bool = False, **claims: Any) -> str:
        """AddPartitionsToTxn, of the client (versions 0 to 3) or of a broker (4 and 5)."""
        who, topics = self._who(claims), place_list(places)
        if version < 4:
            request = {
                "v3_and_below_transactional_id": who["transactional_id"],
                "v3_and_below_producer_id": who["producer_id"],
                "v3_and_below_producer_epoch": who["producer_epoch"],
                "v3_and_below_topics": topics,
            } | {**who, "topics": topics}
        else:
            request = {"transactions": [{**who, "verify_only": verify_only, "topics": topics}]}
        answer = self.raw.call(ADD_PARTITIONS, version, **request)
        if version < 4:
            results = answer.results_by_topic_v3_and_below
        elif answer.error_code.name != "none":
            return str(answer.error_code.name)
        else:
            results = answer.results_by_transaction[0].topic_results
        codes = [one.partition_error_code.name for topic in results for one in topic.results_by_partition]
        return _one_or_all(codes)

    def produce(
        self,
        place: Place,
        *values: bytes,
        version: int = V1["produce"],
        sequence: int | None = None,
        transactional: bool = True,
        codec: str = "none",
        **claims: Any,
    ) -> str:
        """One batch; its sequence follows the last one that was taken."""
        who = self._who(claims)
        base = self.sequences.get(place, 0) if sequence is None else sequence
        batch = build_batch(
            [Record(offset, now_ms(), b"k", value, ()) for offset, value in enumerate(values)],
            producer_id=who["producer_id"],
            producer_epoch=who["producer_epoch"],
            base_sequence=base,
            transactional=transactional,
            compression=codec,
        )
        named = who["transactional_id"] if transactional else None
        error = produce_batch(self.raw, place, batch, version, named)
        if error == "none" and sequence is None:
            self.sequences[place] = base + len(values)
        return error

    def add_offsets(self, group: str, version: int = V1["offsets"], **claims: Any) -> str:
        """AddOffsetsToTxn."""
        answer = self.raw.call(ADD_OFFSETS, version, group_id=group, **self._who(claims))
        return str(answer.error_code.name)

    def commit_offset(
        self, group: str, place: Place, offset: int, version: int = V1["offset_commit"], **claims: Any
    ) -> str:
        """TxnOffsetCommit of one partition."""
        topic, partition = place
        row = {"partition_index": partition, "committed_offset": offset, "committed_metadata": "m"}
        row["committed_leader_epoch"] = -1
        topics = [{"name": topic, "partitions": [row]}]
        answer = self.raw.call(OFFSET_COMMIT, version, group_id=group, topics=topics, **self._who(claims))
        return str(answer.topics[0].partitions[0].error_code.name)

    def end(self, committed: bool, version: int = V1["end"], **claims: Any) -> str:
        """EndTxn; version 5 gives the id and epoch of the next transaction."""
        answer = self.raw.call(END_TXN, version, committed=committed, **self._who(claims))
        if answer.error_code.name == "none" and version >= 5:
            self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return str(answer.error_code.name)

    def finish(self, committed: bool, version: int = V1["end"]) -> None:
        """End a transaction and wait until its markers are written."""
        assert self.end(committed, version) == "none"
        self.settle()

    def settle(self) -> None:
        """Wait until the coordinator has written all markers."""
        eventually(lambda: not self.describe()[0].startswith("Prepare"))

    def describe(self) -> tuple[str, int, int, list[Place]]:
        """State (or the error), producer id, epoch and partitions, as DescribeTransactions tells them."""
        self.raw.send(
            request_frame(DESCRIBE_TRANSACTIONS, 0, 1, {"transactional_ids": [self.transactional_id]})
        )
        # kio reads no date before 1970, and a transaction that never began says -1: our own codec does.
        (found,) = DescribeTransactionsResponse.decode(self.raw.receive(), 0, HEADER_BYTES).transaction_states
        if found.error_code:
            return (ErrorCode(found.error_code).name, -1, -1, [])
        places = sorted((topic.topic, p) for topic in found.topics for p in topic.partitions)
        return (found.transaction_state, found.producer_id, found.producer_epoch, places)


BUSY = (
    "concurrent_transactions",
    "coordinator_load_in_progress",
    "coordinator_not_available",
    "not_coordinator",
)


def now_ms() -> int:
    """The wall clock."""
    return time.time_ns() // 1_000_000


def produce_batch(
    raw: RawClient, place: Place, batch: bytes, version: int = 11, transactional_id: str | None = None
) -> str:
    """Send a batch as it is (by name: versions below 13) and give the error."""
    topic, partition = place
    data = [{"name": topic, "partition_data": [{"index": partition, "records": batch}]}]
    answer = raw.call(
        PRODUCE, version, acks=-1, timeout=5000, topic_data=data, transactional_id=transactional_id
    )
    return str(answer.responses[0].partition_responses[0].error_code.name)


def ends(raw: RawClient, *places: Place) -> list[tuple[int, int]]:
    """Last stable offset and high watermark of each partition."""
    found = []
    for topic, partition in places:
        pair = []
        for isolation in (1, 0):
            row = {"partition_index": partition, "timestamp": -1, "current_leader_epoch": -1}
            topics = [{"name": topic, "partitions": [row]}]
            answer = raw.call(LIST_OFFSETS, 7, replica_id=-1, isolation_level=isolation, topics=topics)
            pair.append(answer.topics[0].partitions[0].offset)
        found.append((pair[0], pair[1]))
    return found


def fetch(
    raw: RawClient, place: Place, offset: int = 0, *, committed: bool = True, size: int = 1 << 24
) -> Any:
    """The partition's part of one Fetch answer."""
    topic, partition = place
    row = {
        "partition": partition, "fetch_offset": offset, "partition_max_bytes": size,
        "current_leader_epoch": -1, "log_start_offset": -1,
    }  # fmt: skip
    answer = raw.call(
        FETCH, 11, replica_id=-1, max_wait=0, max_bytes=size, session_epoch=-1,
        isolation_level=int(committed), topics=[{"topic": topic, "partitions": [row]}],
    )  # fmt: skip
    return answer.responses[0].partitions[0]


def group_offset(raw: RawClient, group: str, place: Place, *, stable: bool = False) -> int | str:
    """What a group has committed, -1 where nothing, or the error."""
    topic, partition = place
    topics = [{"name": topic, "partition_indexes": [partition]}]
    asked = [{"group_id": group, "member_epoch": -1, "topics": topics}]

    def ask() -> Any:
        raw.call(FIND_COORDINATOR, 3, key=group, key_type=0)
        (answer,) = raw.call(OFFSET_FETCH, 9, require_stable=stable, groups=asked).groups
        return None if answer.error_code.name in BUSY else answer.topics[0].partitions[0]

    found = eventually(ask)
    return found.committed_offset if found.error_code.name == "none" else str(found.error_code.name)


def active_producers(raw: RawClient, place: Place) -> list[tuple[int, int, int, int, int]]:
    """Id, epoch, last sequence, coordinator epoch and start of the open transaction of each producer."""
    topics = [{"name": place[0], "partition_indexes": [place[1]]}]
    (found,) = raw.call(DESCRIBE_PRODUCERS, 0, topics=topics).topics[0].partitions
    return [
        (
            one.producer_id, one.producer_epoch, one.last_sequence,
            one.coordinator_epoch, one.current_txn_start_offset,
        )
        for one in found.active_producers
    ]  # fmt: skip


def write_marker(raw: RawClient, places: Sequence[Place], version: int = 1, **marker: Any) -> str:
    """WriteTxnMarkers of one producer, as a coordinator sends it."""
    values = {"transaction_result": True, "coordinator_epoch": 0, "producer_epoch": 0} | marker
    values["topics"] = place_list(places, partitions="partition_indexes")
    answer = raw.call(WRITE_MARKERS, version, markers=[values])
    (one,) = answer.markers
    return _one_or_all([p.error_code.name for topic in one.topics for p in topic.partitions])


def _one_or_all(codes: Sequence[Any]) -> str:
    return str(codes[0]) if len(set(codes)) == 1 else ",".join(map(str, codes))
