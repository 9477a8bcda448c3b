"""Transactions byte by byte: sequences and late retries, markers from nobody, offsets of stale members, what
Fetch tells of aborted transactions, and every version of every API. Apache Kafka 4.3.1's answers, as in
test_transactions_refused.py.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from client_confluent import create_topic
from client_model import Place, eventually
from client_raw_transactions import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_TRANSACTIONS,
    OFFSET_COMMIT,
    PRODUCE,
    WRITE_MARKERS,
    RawProducer,
    active_producers,
    ends,
    fetch,
    group_offset,
    now_ms,
    produce_batch,
    write_marker,
)
from conftest import KIND
from raw_client import RawClient, parse_response, request_frame

from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record

STATE, ABORTABLE, EPOCH = "invalid_txn_state", "transaction_abortable", "invalid_producer_epoch"
LATER_TERM = 1000  # no coordinator has been elected so often
JOIN_GROUP, SYNC_GROUP, CONSUMER_GROUP_HEARTBEAT = 11, 14, 68
MakePlaces = Callable[..., list[Place]]


@pytest.fixture(scope="module")
def raw(bootstrap: str) -> Iterator[RawClient]:
    with RawClient(bootstrap) as one:
        yield one


@pytest.fixture
def make_places(bootstrap: str, raw: RawClient, topic: str) -> MakePlaces:
    """Makes the test's topic."""

    def make(partitions: int = 2, **configs: str) -> list[Place]:
        create_topic(bootstrap, topic, partitions, **configs)
        made = [(topic, partition) for partition in range(partitions)]
        eventually(lambda: ends(raw, *made) == [(0, 0)] * partitions)
        return made

    return make


@pytest.fixture
def places(make_places: MakePlaces) -> list[Place]:
    return make_places()


@pytest.fixture
def one(raw: RawClient, topic: str) -> RawProducer:
    """A producer of epoch 1."""
    made = RawProducer(raw, topic)
    assert [made.init(), made.init()] == ["none", "none"]
    return made


@pytest.fixture
def ongoing(one: RawProducer, places: list[Place]) -> RawProducer:
    """With one record in a transaction on the first partition."""
    assert one.add(places[0]) == "none"
    assert one.produce(places[0], b"first") == "none"
    return one


def standing(one: RawProducer, places: list[Place]) -> tuple[Any, ...]:
    """All that a refusal must leave alone."""
    return one.describe(), ends(one.raw, *places), [active_producers(one.raw, place) for place in places]


def test_bad_batches_in_an_open_transaction(ongoing: RawProducer, places: list[Place]) -> None:
    before = standing(ongoing, places)
    first = places[0]
    assert ongoing.produce(first, b"plain", transactional=False) == STATE
    assert ongoing.produce(first, b"gap", sequence=5) == "out_of_order_sequence_number"
    assert ongoing.produce(first, b"first", sequence=0) == "none", "a retry is not stored twice"
    marker = build_batch(
        [Record(0, now_ms(), b"\0\0\0\1", b"\0\0\0\0\0\0", ())],
        producer_id=ongoing.producer_id,
        producer_epoch=ongoing.producer_epoch,
        transactional=True,
        control=True,
    )
    assert produce_batch(ongoing.raw, first, marker, 11, ongoing.transactional_id) == "invalid_record"
    assert standing(ongoing, places) == before
    # And the transaction is none the worse for it.
    assert ongoing.produce(first, b"second") == "none"
    ongoing.finish(True)
    assert ends(ongoing.raw, first) == [(3, 3)]


@pytest.mark.parametrize("version", [3, 9, 11, 12])
def test_a_transactional_batch_needs_a_transactional_id(
    version: int, ongoing: RawProducer, places: list[Place]
) -> None:
    before = standing(ongoing, places)
    for place in places:
        for sequence in (0, 1, 7):
            batch = build_batch(
                [Record(0, now_ms(), b"k", b"v", ())],
                producer_id=ongoing.producer_id,
                producer_epoch=ongoing.producer_epoch,
                base_sequence=sequence,
                transactional=True,
            )
            answer = produce_batch(ongoing.raw, place, batch, version, None)
            assert answer == "transactional_id_authorization_failed"
    assert standing(ongoing, places) == before


@pytest.mark.parametrize("committed", [True, False])
def test_a_late_retry_hangs_no_transaction(
    committed: bool, ongoing: RawProducer, places: list[Place]
) -> None:
    """The answer to a Produce was lost, the transaction ended, and then the request comes again (KIP-890)."""
    ongoing.finish(committed, version=4)
    before = standing(ongoing, places)
    for sequence in (0, 1):
        for version, refusal in ((3, STATE), (10, STATE), (11, ABORTABLE)):
            assert ongoing.produce(places[0], b"first", sequence=sequence, version=version) == refusal
    assert standing(ongoing, places) == before


@pytest.mark.parametrize("committed", [True, False])
def test_with_transactions_v2_a_late_retry_has_an_old_epoch(
    committed: bool, one: RawProducer, places: list[Place]
) -> None:
    epoch = one.producer_epoch
    assert one.produce(places[0], b"first", version=12) == "none", "Produce 12 adds the partition itself"
    assert one.describe() == ("Ongoing", one.producer_id, epoch, [places[0]])
    one.finish(committed, version=5)
    assert one.producer_epoch == epoch + 1
    before = standing(one, places)
    for sequence in (0, 1):
        for version in (3, 11, 12):
            late = one.produce(places[0], b"first", sequence=sequence, version=version, producer_epoch=epoch)
            assert late == EPOCH
    assert standing(one, places) == before
    # The retry of EndTxn itself is answered like the first.
    assert one.end(committed, 5, producer_epoch=epoch) == "none"
    assert one.producer_epoch == epoch + 1
    assert standing(one, places) == before


@pytest.mark.parametrize("version", [11, 12])
def test_the_first_batches_of_a_transaction_may_come_all_at_once(
    version: int, one: RawProducer, places: list[Place]
) -> None:
    """Five requests in flight, as the Java client has them, while the coordinator is still being asked."""
    for committed in (True, False, True):
        start = ends(one.raw, places[0])[0][1]
        if version < 12:
            assert one.add(places[0]) == "none"
        frames = []
        for sequence in range(5):
            batch = build_batch(
                [Record(0, now_ms(), b"k", b"%d" % sequence, ())],
                producer_id=one.producer_id,
                producer_epoch=one.producer_epoch,
                base_sequence=one.sequences.get(places[0], 0) + sequence,
                transactional=True,
            )
            data = [{"name": places[0][0], "partition_data": [{"index": 0, "records": batch}]}]
            values = {"acks": -1, "timeout": 5000, "topic_data": data}
            values["transactional_id"] = one.transactional_id
            frames.append(request_frame(PRODUCE, version, sequence, values))
        one.raw.send(b"".join(frames))
        found = []
        for sequence in range(5):
            answer = parse_response(one.raw.receive(), PRODUCE, version, sequence)
            (partition,) = answer.responses[0].partition_responses
            found.append((partition.error_code.name, partition.base_offset))
        assert found == [("none", start + number) for number in range(5)]
        one.sequences[places[0]] = one.sequences.get(places[0], 0) + 5
        one.finish(committed, 5 if version >= 12 else 4)
        assert ends(one.raw, places[0]) == [(start + 6, start + 6)]


def test_a_broker_asks_for_several_transactions_at_once(raw: RawClient, places: list[Place]) -> None:
    """AddPartitionsToTxn 4 and 5: each transaction has its own answer, and one's error is not another's."""
    topic = places[0][0]
    asked = [RawProducer(raw, f"{topic}-{number}") for number in range(3)]
    assert [one.init() for one in asked] == ["none"] * 3
    assert asked[2].add(*places) == "none"
    topics = [{"name": topic, "partitions": [0, 1]}]
    for version in (4, 5):
        transactions = [
            {
                "transactional_id": one.transactional_id,
                "producer_id": one.producer_id,
                "producer_epoch": one.producer_epoch + (number == 1),
                "verify_only": number == 2,
                "topics": topics,
            }
            for number, one in enumerate(asked)
        ]
        answer = raw.call(ADD_PARTITIONS, version, transactions=transactions)
        assert answer.error_code.name == "none"
        found = {
            one.transactional_id: [
                row.partition_error_code.name
                for each in one.topic_results
                for row in each.results_by_partition
            ]
            for one in answer.results_by_transaction
        }
        expected = ["none", "producer_fenced", "none"]
        assert found == {one.transactional_id: [code] * 2 for one, code in zip(asked, expected, strict=True)}
    assert [one.describe()[0] for one in asked] == ["Ongoing", "Empty", "Ongoing"]
    assert asked[0].describe()[3] == places


def test_adding_partitions_is_all_or_nothing(ongoing: RawProducer, places: list[Place]) -> None:
    before = standing(ongoing, places)
    assert ongoing.add(("nowhere", 0)) == "unknown_topic_or_partition"
    assert ongoing.add((places[0][0], 99)) == "unknown_topic_or_partition"
    answer = ongoing.add(places[1], ("nowhere", 0)).split(",")
    assert sorted(answer) == ["operation_not_attempted", "unknown_topic_or_partition"]
    assert standing(ongoing, places) == before


def test_markers_from_nobody(ongoing: RawProducer, places: list[Place]) -> None:
    raw, who = ongoing.raw, {"producer_id": ongoing.producer_id, "producer_epoch": ongoing.producer_epoch}
    before = standing(ongoing, places)
    older = who | {"producer_epoch": ongoing.producer_epoch - 1}
    for version in (1, 2):
        assert write_marker(raw, places[:1], version, **older) == EPOCH
        assert write_marker(raw, [("nowhere", 0)], version, **who) == "unknown_topic_or_partition"
        assert write_marker(raw, [(places[0][0], 99)], version, **who) == "unknown_topic_or_partition"
    # Of transactions v2 a marker has a later epoch than what it ends.
    assert write_marker(raw, places[:1], 2, transaction_version=2, **who) == EPOCH
    assert standing(ongoing, places) == before
    term = LATER_TERM
    if KIND != "kafka":  # Kafka takes any term, and so lets a stranger fence the coordinator for good
        assert write_marker(raw, places[:1], coordinator_epoch=term, **who) == "unknown_leader_epoch"
        assert standing(ongoing, places) == before
        term = 0
    # A coordinator of a later term ends it, and the one that it deposed is told so.
    assert write_marker(raw, places[:1], coordinator_epoch=term, **who) == "none"
    after = standing(ongoing, places)
    assert after[1][0] == (2, 2)
    assert (
        write_marker(raw, places[:1], coordinator_epoch=term - 1, **who) == "transaction_coordinator_fenced"
    )
    assert standing(ongoing, places) == after


def test_a_marker_for_a_producer_that_the_partition_never_saw(raw: RawClient, places: list[Place]) -> None:
    """Kafka writes it, since a coordinator may end a transaction whose first batch never arrived."""
    assert write_marker(raw, places[:1], producer_id=1 << 40) == "none"
    assert ends(raw, places[0]) == [(1, 1)]
    assert active_producers(raw, places[0]) == [(1 << 40, 0, -1, 0, -1)]
    assert fetch(raw, places[0]).aborted_transactions in (None, ())


@pytest.mark.parametrize("state", ["nothing", "ongoing", "ended"])
def test_whose_markers_a_partition_takes(state: str, raw: RawClient, make_places: MakePlaces) -> None:
    """By the producer's epoch (older, present, newer) and the coordinator's (none, the same, later)."""
    rows = [(epoch, term, 1) for epoch in (-1, 0, 1) for term in (-1, 0, LATER_TERM)]
    rows += [(epoch, 0, 2) for epoch in (-1, 0, 1)]
    for place, (epoch, term, version) in zip(make_places(len(rows)), rows, strict=True):
        one = RawProducer(raw, f"{place[0]}-{place[1]}")
        assert [one.init() for _ in range(2)] == ["none"] * 2
        if state != "nothing":
            assert one.add(place) == "none"
            assert one.produce(place, b"x") == "none"
        if state == "ended":
            one.finish(True)
        told = "none"
        if term == LATER_TERM and KIND != "kafka":
            told = "unknown_leader_epoch"
        elif state != "nothing" and epoch < 0:
            told = EPOCH
        elif state == "ended" and term < 0:
            told = "transaction_coordinator_fenced"
        marker = {"producer_id": one.producer_id, "producer_epoch": one.producer_epoch + epoch}
        answer = write_marker(
            raw, [place], version, coordinator_epoch=term, transaction_result=False, **marker
        )
        assert answer == told, (epoch, term, version)


def test_a_marker_of_an_epoch_that_cannot_be(raw: RawClient, places: list[Place]) -> None:
    told = "unknown_server_error" if KIND == "kafka" else EPOCH
    assert write_marker(raw, places[:1], producer_id=5, producer_epoch=-1) == told
    assert ends(raw, places[0]) == [(0, 0)]
    assert active_producers(raw, places[0]) == []


def test_offsets_of_a_stale_member_of_a_classic_group(
    ongoing: RawProducer, places: list[Place], group: str
) -> None:
    raw = ongoing.raw
    assert ongoing.add_offsets(group) == "none"
    assert ongoing.commit_offset(group, places[0], 1) == "none", "a group of offsets alone"
    for version in (3, 4):
        stranger = {"generation_id": 3, "member_id": "nobody"}
        assert ongoing.commit_offset(group, places[0], 2, version, **stranger) == "unknown_member_id"
        assert ongoing.commit_offset(group, places[0], 2, version, generation_id=3) == "unknown_member_id"
    protocols = [{"name": "range", "metadata": b"\0\0"}]
    joined = raw.call(
        JOIN_GROUP, 3, group_id=group, session_timeout=30_000, rebalance_timeout=30_000,
        protocol_type="consumer", protocols=protocols,
    )  # fmt: skip
    generation, member = joined.generation_id, joined.member_id
    assignments = [{"member_id": member, "assignment": b""}]
    raw.call(
        SYNC_GROUP, 3, group_id=group, generation_id=generation, member_id=member, assignments=assignments
    )
    refusals = {
        (generation - 1, member, None): "illegal_generation",
        (generation + 1, member, None): "illegal_generation",
        (-1, member, None): "illegal_generation",
        (generation, "nobody", None): "unknown_member_id",
        (generation, member, "an instance"): "unknown_member_id",
    }
    for version in (3, 4, 5):
        for (stale_generation, stale_member, instance), refusal in refusals.items():
            claims = {"generation_id": stale_generation, "member_id": stale_member}
            answer = ongoing.commit_offset(group, places[0], 9, version, group_instance_id=instance, **claims)
            assert answer == refusal, (version, claims)
    assert ongoing.commit_offset(group, ("nowhere", 0), 9) == "unknown_topic_or_partition"
    assert ongoing.commit_offset("", places[0], 9) == "invalid_group_id"
    right = {"generation_id": generation, "member_id": member}
    assert ongoing.commit_offset(group, places[1], 6, **right) == "none"
    ongoing.finish(True)
    # Of all these commits two counted.
    assert [group_offset(raw, group, place, stable=True) for place in places] == [1, 6]


def test_a_fenced_instance_commits_no_offsets(ongoing: RawProducer, places: list[Place], group: str) -> None:
    raw = ongoing.raw
    assert ongoing.add_offsets(group) == "none"
    ids = []
    for _ in range(2):  # the second takes the instance's place
        joined = raw.call(
            JOIN_GROUP, 5, group_id=group, group_instance_id="an instance", session_timeout=30_000,
            rebalance_timeout=30_000, protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b"\0\0"}],
        )  # fmt: skip
        ids.append((joined.generation_id, joined.member_id))
    (generation, member), _ = ids
    claims = {"generation_id": generation, "member_id": member, "group_instance_id": "an instance"}
    assert ongoing.commit_offset(group, places[0], 9, **claims) == "fenced_instance_id"
    ongoing.finish(True)
    assert group_offset(raw, group, places[0]) == -1


def test_offsets_of_a_stale_member_of_a_new_protocol_group(
    ongoing: RawProducer, places: list[Place], group: str
) -> None:
    raw, member = ongoing.raw, "AAAAAAAAAAAAAAAAAAAAAQ"
    assert ongoing.add_offsets(group) == "none"
    joined = raw.call(
        CONSUMER_GROUP_HEARTBEAT, 1, group_id=group, member_id=member, member_epoch=0,
        rebalance_timeout=30_000, subscribed_topic_names=[places[0][0]], topic_partitions=[],
    )  # fmt: skip
    epoch = joined.member_epoch
    refusals = {
        (epoch - 1, member): "illegal_generation",
        (epoch + 1, member): "illegal_generation",
        (epoch, "nobody"): "unknown_member_id",
    }
    for version in (3, 4, 5):
        for (stale_epoch, stale_member), refusal in refusals.items():
            claims = {"generation_id": stale_epoch, "member_id": stale_member}
            assert ongoing.commit_offset(group, places[0], 9, version, **claims) == refusal, claims
    assert ongoing.commit_offset(group, places[0], 4, generation_id=epoch, member_id=member) == "none"
    ongoing.finish(True)
    assert group_offset(raw, group, places[0], stable=True) == 4


def test_fetch_tells_which_transactions_were_aborted(
    raw: RawClient, topic: str, make_places: MakePlaces
) -> None:
    """Over several segments, read_committed, fetch after fetch up to the last stable offset."""
    (place,) = make_places(1, segment_bytes="1048576")
    lost, held = RawProducer(raw, f"{topic}-lost"), RawProducer(raw, f"{topic}-held")
    assert [lost.init(), held.init()] == ["none", "none"]
    value = bytes(300_000)
    starts = []
    for committed in (False, True, False):
        assert lost.add(place) == "none"
        starts.append(ends(raw, place)[0][1])
        for _ in range(5):
            assert lost.produce(place, value) == "none"
        lost.finish(committed)
    assert held.add(place) == "none"
    held_at = ends(raw, place)[0][1]
    assert held.produce(place, b"held") == "none"
    assert ends(raw, place) == [(held_at, held_at + 1)]
    aborted, offset = dict.fromkeys(starts, 0), 0
    while offset < held_at:
        found = fetch(raw, place, offset, size=500_000)
        assert (found.last_stable_offset, found.high_watermark) == (held_at, held_at + 1)
        last = last_offset(bytes(found.records))
        for one in found.aborted_transactions:
            # The list is of what overlaps the answer, and of nothing else.
            assert one.producer_id == lost.producer_id
            if KIND == "moldau":  # Kafka takes the end of the range from its sparse index
                assert one.first_offset <= last
            assert offset <= one.first_offset + 5
            aborted[one.first_offset] += 1
        offset = last + 1
    assert [bool(aborted[start]) for start in starts] == [True, False, True]
    assert offset == held_at, "nothing beyond the last stable offset is given"
    assert fetch(raw, place, held_at).records in (None, b"")
    plain = fetch(raw, place, held_at, committed=False)
    assert plain.aborted_transactions is None
    assert last_offset(bytes(plain.records)) == held_at
    held.finish(False)
    assert ends(raw, place) == [(held_at + 2, held_at + 2)]


def last_offset(records: bytes) -> int:
    """The last offset of the whole batches; Kafka cuts the last one where the size is reached."""
    last, at = -1, 0
    while at + 61 <= len(records):
        base, size = struct.unpack_from(">qi", records, at)
        if at + 12 + size > len(records):
            break
        last = base + struct.unpack_from(">i", records, at + 23)[0]
        at += 12 + size
    return last


@pytest.mark.parametrize("key_type", [2, 3, -1])
def test_a_coordinator_of_no_known_kind(key_type: int, raw: RawClient) -> None:
    for version in range(1, 7):
        answer = raw.call(FIND_COORDINATOR, version, key="k", key_type=key_type, coordinator_keys=["k"])
        found = answer if version < 4 else answer.coordinators[0]
        assert found.error_code.name == "invalid_request"


def test_the_transaction_coordinator_is_found(raw: RawClient, topic: str) -> None:
    for version in range(1, 7):
        answer = raw.call(FIND_COORDINATOR, version, key=topic, key_type=1, coordinator_keys=[topic])
        found = answer if version < 4 else answer.coordinators[0]
        assert (found.error_code.name, found.port) == ("none", raw.socket.getpeername()[1])


ADVERTISED = {
    INIT_PRODUCER_ID: (0, 5),
    ADD_PARTITIONS: (0, 5),
    ADD_OFFSETS: (0, 4),
    END_TXN: (0, 5),
    WRITE_MARKERS: (1, 2),
    OFFSET_COMMIT: (0, 5),
    DESCRIBE_PRODUCERS: (0, 0),
    DESCRIBE_TRANSACTIONS: (0, 0),
    LIST_TRANSACTIONS: (0, 2),
}


def test_what_is_advertised(raw: RawClient) -> None:
    ranges = raw.advertised()
    assert {key: ranges.get(key) for key in ADVERTISED} == ADVERTISED


def test_a_whole_transaction_in_every_version(
    raw: RawClient, topic: str, places: list[Place], group: str
) -> None:
    """Each of the APIs in each of its versions, one transaction after the other."""
    one = RawProducer(raw, topic)
    for version in range(6):
        assert one.init(version) == "none"
        assert one.add(*places, version=version) == "none"
        assert one.produce(places[0], b"%d" % version, version=3 + 2 * min(version, 4)) == "none"
        assert one.add_offsets(group, min(version, 4)) == "none"
        assert one.commit_offset(group, places[0], 10 + version, version) == "none"
        assert sorted(p for p in one.describe()[3] if p in places) == places
        one.finish(version % 2 == 0, version)
        produced = version + 1
        # A marker on either partition, on one behind a record.
        assert ends(raw, *places) == [(2 * produced, 2 * produced), (produced, produced)]
        committed = version if version % 2 == 0 else version - 1
        assert group_offset(raw, group, places[0], stable=True) == 10 + committed


def test_transactions_are_listed_in_every_version(ongoing: RawProducer) -> None:
    raw, name = ongoing.raw, ongoing.transactional_id

    def listed(version: int, **filters: Any) -> set[str]:
        answer = raw.call(LIST_TRANSACTIONS, version, **filters)
        assert answer.error_code.name == "none"
        return {one.transactional_id for one in answer.transaction_states}

    for version in range(3):
        assert name in listed(version)
        assert name in listed(version, state_filters=["Ongoing"])
        assert name not in listed(version, state_filters=["Empty", "CompleteCommit"])
        assert listed(version, producer_id_filters=[ongoing.producer_id]) == {name}
        assert listed(version, producer_id_filters=[1 << 40]) == set()
    for version in (1, 2):
        assert name in listed(version, duration_filter=0)
        assert name not in listed(version, duration_filter=3_600_000)
    assert listed(2, transactional_id_pattern=f"{name[:-3]}.*") == {name}
    assert listed(2, transactional_id_pattern=name[:-3]) == set(), "the pattern is for the whole name"
    answer = raw.call(LIST_TRANSACTIONS, 2, transactional_id_pattern="(")
    assert answer.error_code.name == "invalid_regular_expression"
    answer = raw.call(LIST_TRANSACTIONS, 1, state_filters=["Ongoing", "Confused"])
    assert answer.unknown_state_filters == ("Confused",)
