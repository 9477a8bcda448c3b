"""Rights that change while a client is at work: what was let through before is refused from then on, and the
other way round; and what one client is told is not told to another.
"""

from pathlib import Path
from typing import Any

from acl_world import ROOT, AclWorld, Person, batch, produces, with_acls
from jumping_time import until

from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.common.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.common.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.common.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.common.protocol.operations import Operation, ResourceType

ALICE, BOB = "User:alice", "User:bob"
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
TOPIC = ResourceType.TOPIC
TOPIC_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def produced(answer: Any) -> list[int]:
    return [row.error_code for topic in answer.responses for row in topic.partition_responses]


def fetches(
    world: AclWorld,
    *names: str,
    session: tuple[int, int] = (0, -1),
    offset: int = 0,
    max_wait_ms: int = 0,
    by_id: bool = False,
    replica_id: int = -1,
) -> FetchRequest:
    row = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchTopic(partitions=[row]) for _ in names]
    for topic, name in zip(topics, names, strict=True):
        topic.topic, topic.topic_id = ("", world.id_of(name)) if by_id else (name, bytes(16))
    return FetchRequest(
        replica_id=replica_id,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        session_id=session[0],
        session_epoch=session[1],
        topics=topics,
    )


def rows_of(answer: Any) -> list[tuple[int, bool]]:
    """Each row's error code, and whether it has records."""
    return [(row.error_code, bool(row.records)) for topic in answer.responses for row in topic.partitions]


async def fill(world: AclWorld, *names: str) -> None:
    answer = await world.person(ROOT).ask(produces(*((name, batch(world.node)) for name in names)), 9)
    assert not any(produced(answer))


def test_a_repeated_produce_notices_a_right_that_is_taken_away(tmp_path: Path) -> None:
    async def scene(world: AclWorld) -> None:
        alice = world.person(ALICE)
        request = produces(("a", batch(world.node)))
        assert produced(await alice.ask(request, 9)) == [TOPIC_FAILED]
        assert alice.shortcut is None
        await world.allow(ALICE, WRITE, TOPIC, "a")
        for _ in range(3):
            assert produced(await alice.ask(request, 9)) == [0]
        assert alice.shortcut is not None
        end_offset = world.end_offset("a")
        await world.withdraw(ALICE, WRITE, TOPIC, "a")
        for _ in range(2):
            assert produced(await alice.ask(request, 9)) == [TOPIC_FAILED]
        assert world.end_offset("a") == end_offset
        await world.allow(ALICE, WRITE, TOPIC, "a")
        assert produced(await alice.ask(request, 9)) == [0]
        await world.deny("User:*", WRITE, TOPIC, "a")
        assert produced(await alice.ask(request, 9)) == [TOPIC_FAILED]

    with_acls(scene, tmp_path)


def test_without_answers_a_refused_produce_ends_the_connection(tmp_path: Path) -> None:
    async def scene(world: AclWorld) -> None:
        alice = world.person(ALICE)
        alice.send(produces(("a", batch(world.node)), acks=0), 9)
        await until(lambda: alice.closed)
        assert world.end_offset("a") == 0

    with_acls(scene, tmp_path)


def test_only_the_topics_without_the_right_are_refused(tmp_path: Path) -> None:
    async def scene(world: AclWorld) -> None:
        alice, node = world.person(ALICE), world.node
        await world.allow(ALICE, WRITE, TOPIC, "b")
        both = produces(("a", batch(node)), ("b", batch(node)), ("none", batch(node)))
        assert produced(await alice.ask(both, 9)) == [TOPIC_FAILED, 0, TOPIC_FAILED]
        assert (world.end_offset("a"), world.end_offset("b")) == (0, 1)
        both.acks = 2  # a number that there is not: who has no right does not get so far
        assert produced(await alice.ask(both, 9)) == [
            TOPIC_FAILED,
            ErrorCode.INVALID_REQUIRED_ACKS,
            TOPIC_FAILED,
        ]

    with_acls(scene, tmp_path)


def test_hundreds_of_rows_are_refused_one_by_one(tmp_path: Path) -> None:
    async def scene(world: AclWorld) -> None:
        alice, node = world.person(ALICE), world.node
        await world.allow(ALICE, WRITE, TOPIC, "b")
        rows = [(name, batch(node)) for name in ["a"] * 300 + ["b"] * 2 + ["a"] * 300]
        errors = produced(await alice.ask(produces(*rows), 9))
        assert errors == [TOPIC_FAILED] * 300 + [0] * 2 + [TOPIC_FAILED] * 300
        assert (world.end_offset("a"), world.end_offset("b")) == (0, 2)

    with_acls(scene, tmp_path)


def test_a_topic_id_gives_no_right_and_no_name(tmp_path: Path) -> None:
    async def scene(world: AclWorld) -> None:
        alice, node = world.person(ALICE), world.node
        await fill(world, "a")
        await world.allow(ALICE, READ, TOPIC, "a")
        request = fetches(world, "a", by_id=True)
        assert rows_of(await alice.ask(request)) == [(0, True)]
        await world.withdraw(ALICE, READ, TOPIC, "a")
        assert rows_of(await alice.ask(request)) == [(TOPIC_FAILED, False)]
        rows = [PartitionProduceData(index=0, records=batch(node))]
        data = TopicProduceData(topic_id=world.id_of("a"), partition_data=rows)
        written = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data])
        assert produced(await alice.ask(written)) == [TOPIC_FAILED]
        data.topic_id = b"?" * 16
        assert produced(await alice.ask(written)) == [ErrorCode.UNKNOWN_TOPIC_ID]
        asked = [MetadataRequestTopic(name=None, topic_id=world.id_of("a"))]
        (topic,) = (await alice.ask(MetadataRequest(topics=asked))).topics
        assert (topic.error_code, topic.name, topic.partitions) == (TOPIC_FAILED, None, [])
        assert world.end_offset("a") == 1

    with_acls(scene, tmp_path)


def test_a_fetch_session_goes_on_only_with_what_may_still_be_read(tmp_path: Path) -> None:
    async def scene(world: AclWorld) -> None:
        alice = world.person(ALICE)
        await fill(world, "a", "b")
        await world.allow(ALICE, READ, TOPIC, "a")
        await world.allow(ALICE, READ, TOPIC, "b")
        opened = await alice.ask(fetches(world, "a", "b", session=(0, 0)), 12)
        assert rows_of(opened) == [(0, True), (0, True)]
        await world.withdraw(ALICE, READ, TOPIC, "a")

        async def resume(epoch: int) -> Any:
            return await alice.ask(fetches(world, session=(opened.session_id, epoch)), 12)

        answer = await resume(1)
        rows = {topic.topic: topic.partitions[0] for topic in answer.responses}
        assert (rows["a"].error_code, bool(rows["a"].records)) == (TOPIC_FAILED, False)
        assert rows["a"].high_watermark == -1
        assert (rows["b"].error_code, bool(rows["b"].records)) == (0, True)
        again = {topic.topic: topic.partitions[0].error_code for topic in (await resume(2)).responses}
        assert again["a"] == TOPIC_FAILED
        await world.allow(ALICE, READ, TOPIC, "a")
        answer = await resume(3)
        assert sorted(rows_of(answer)) == [(0, True), (0, True)]

    with_acls(scene, tmp_path)


def test_a_fetch_that_waits_gives_nothing_of_what_may_no_longer_be_read(tmp_path: Path) -> None:
    async def scene(world: AclWorld) -> None:
        alice = world.person(ALICE)
        await world.allow(ALICE, READ, TOPIC, "a")
        for version in (12, 18):
            end_offset = world.end_offset("a")
            request = fetches(world, "a", offset=end_offset, max_wait_ms=60_000, by_id=version > 12)
            alice.send(request, version)
            assert not alice.client.transport.sent
            await world.withdraw(ALICE, READ, TOPIC, "a")
            await fill(world, "a")
            answer = await alice.answer(FetchRequest, version)
            assert rows_of(answer) == [(TOPIC_FAILED, False)]
            assert answer.responses[0].partitions[0].high_watermark == -1
            await world.allow(ALICE, READ, TOPIC, "a")

    with_acls(scene, tmp_path)


def test_a_fetch_of_hundreds_of_partitions_is_refused_where_the_right_is_missing(tmp_path: Path) -> None:
    async def scene(world: AclWorld) -> None:
        alice = world.person(ALICE)
        await fill(world, "a", "b")
        await world.allow(ALICE, READ, TOPIC, "b")
        request = fetches(world, "a", "b")
        row = FetchPartition(partition=0, partition_max_bytes=1 << 20)
        missing = [FetchPartition(partition=index, partition_max_bytes=1) for index in range(2, 600)]
        request.topics[0].partitions = [row, *missing]
        errors = rows_of(await alice.ask(request, 12))
        assert errors == [(TOPIC_FAILED, False)] * 599 + [(0, True)]

    with_acls(scene, tmp_path)


def test_a_fetch_session_is_its_owners(tmp_path: Path) -> None:
    async def scene(world: AclWorld) -> None:
        alice, bob = world.person(ALICE), world.person(BOB)
        await fill(world, "a")
        await world.allow(ALICE, READ, TOPIC, "a")
        opened = await alice.ask(fetches(world, "a", session=(0, 0)), 12)
        stolen = await bob.ask(fetches(world, session=(opened.session_id, 1)), 12)
        assert (stolen.error_code, stolen.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])
        await bob.ask(fetches(world, session=(opened.session_id, -1)), 12)
        goes_on = await alice.ask(fetches(world, session=(opened.session_id, 1)), 12)
        assert rows_of(goes_on) == [(0, True)]

    with_acls(scene, tmp_path)


def test_a_consumer_is_no_follower_because_it_says_so(tmp_path: Path) -> None:
    async def scene(world: AclWorld) -> None:
        alice = world.person(ALICE)
        await fill(world, "a")
        await world.allow(ALICE, READ, TOPIC, "a")
        assert rows_of(await alice.ask(fetches(world, "a", replica_id=2), 12)) == [(TOPIC_FAILED, False)]

    with_acls(scene, tmp_path)


def test_all_topics_are_those_that_the_client_may_see(tmp_path: Path) -> None:
    async def scene(world: AclWorld) -> None:
        async def seen_by(person: Person, version: int) -> set[str]:
            every: Any = MetadataRequest(topics=[] if version == 0 else None)
            return {topic.name for topic in (await person.ask(every, version)).topics}

        root, alice, bob = world.person(ROOT), world.person(ALICE), world.person(BOB)
        await world.allow(ALICE, READ, TOPIC, "a")
        for version in (0, 9, 13):  # root's answer is kept encoded, and must not be given to others
            assert await seen_by(root, version) == {"a", "b"}
            assert await seen_by(alice, version) == {"a"}
            assert await seen_by(bob, version) == set()
            assert await seen_by(root, version) == {"a", "b"}
        await world.withdraw(ALICE, READ, TOPIC, "a")
        assert await seen_by(alice, 13) == set()

    with_acls(scene, tmp_path)


def test_a_transactional_id_without_the_right_is_not_slipped_in_behind_a_plain_batch(tmp_path: Path) -> None:
    """A plain batch needs no right to the transactional id that its request names; the next one, which
    begins with the same bytes, may be transactional."""

    async def scene(world: AclWorld) -> None:
        node = world.node
        root, alice = world.person(ROOT), world.person(ALICE)
        await root.ask(_find_coordinator(), 3)
        init = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000)
        given = await world.done(root, init, 4)
        of_root = {
            "producer_id": given.producer_id,
            "producer_epoch": given.producer_epoch,
            "transactional": True,
        }
        opened = produces(("a", batch(node, base_sequence=0, **of_root)), transactional_id="t")
        assert produced(await root.ask(opened, 12)) == [0]
        await world.allow(ALICE, WRITE, TOPIC, "a")
        plain = produces(("a", batch(node)), transactional_id="t")
        assert produced(await alice.ask(plain, 12)) == [0]
        end_offset = world.end_offset("a")
        forged = produces(("a", batch(node, base_sequence=1, **of_root)), transactional_id="t")
        failed = [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
        assert produced(await alice.ask(forged, 12)) == failed
        assert produced(await alice.ask(forged, 12)) == failed
        assert world.end_offset("a") == end_offset
        await world.allow(ALICE, WRITE, ResourceType.TRANSACTIONAL_ID, "t")
        assert produced(await alice.ask(forged, 12)) == [0]

    with_acls(scene, tmp_path)


def _find_coordinator() -> Any:
    from moldau.common.protocol.messages.find_coordinator import FindCoordinatorRequest

    return FindCoordinatorRequest(key="t", key_type=1)
