"""Client quotas on a node: the answer says how long to wait, the connection is muted for as long, and goes on
at once when the quota is gone.

Delays are so long that no test waits for the end of one.
"""

import struct

import pytest
from brokers_world import client_of, with_brokers
from data_plane_world import Client, on_a_node, produce_frame
from jumping_time import until

from moldau.broker.controller.partitions import MorePartitions
from moldau.broker.controller.quotas import AlterQuotas
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.frames import frame_request, is_flexible
from moldau.common.protocol.messages.api_versions import ApiVersionsRequest
from moldau.common.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from moldau.common.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.common.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from moldau.common.protocol.messages.describe_quorum import DescribeQuorumRequest
from moldau.common.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.common.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.common.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from moldau.common.protocol.messages.write_txn_markers import WriteTxnMarkersRequest

EVERYBODY = (("user", None),)


async def quota(node, entity, **values):
    ((_, outcome),) = await node.controller.alter_quotas([AlterQuotas(entity, tuple(values.items()))])
    assert not outcome.failed, outcome


class Asking(Client):
    """A client that sends declared requests, and reads each answer."""

    def __init__(self, node, client_id="load"):
        super().__init__(node)
        self.client_id = client_id
        self.read_bytes = 0

    def send(self, request, version=None):
        version = type(request).VERSIONS[1] if version is None else version
        self.feed(frame_request(type(request).KEY, version, 1, self.client_id, request.encode(version)))

    def answer(self, kind, version=None):
        """The next answer, or None."""
        version = kind.VERSIONS[1] if version is None else version
        data = bytes(self.transport.sent[self.read_bytes :])
        if not data:
            return None
        (size,) = struct.unpack_from(">i", data)
        self.read_bytes += 4 + size
        flexible = is_flexible(kind.KEY, version) and kind is not ApiVersionsRequest
        return kind.RESPONSE.decode(data[8 + flexible : 4 + size], version)

    async def ask(self, request, version=None):
        kind = type(request)
        self.send(request, version)
        answers = []

        def answered():
            answer = self.answer(kind, version)
            if answer is not None:
                answers.append(answer)
            return bool(answers)

        await until(answered)
        return answers[0]

    @property
    def muted(self):
        return bool(self.connection.session.mutes)


def test_a_producer_above_its_quota_is_answered_and_then_waits(tmp_path):
    async def scene(node):
        await quota(node, EVERYBODY, producer_byte_rate=1000.0)
        client, other = Client(node), Client(node)
        client.feed(produce_frame("a", 100))
        await until(lambda: len(client.answers()) == 1)
        assert client.answers()[0].throttle_time_ms == 0
        client.feed(produce_frame("a", 900_000))
        assert client.connection.session.mutes == 1
        client.feed(produce_frame("a", 100) * 3)
        await until(lambda: len(client.answers()) == 2)
        answer = client.answers()[1]
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert answer.throttle_time_ms == pytest.approx(890_000, rel=0.01)
        other.feed(produce_frame("a", 10))  # another connection of the same user
        await until(lambda: len(other.answers()) == 1)
        assert other.answers()[0].throttle_time_ms > 800_000
        assert other.connection.session.mutes == 1
        assert list(node.listeners.all[0].muted) == [client.connection, other.connection]
        await quota(node, EVERYBODY, producer_byte_rate=None)
        assert not node.listeners.all[0].muted
        await until(lambda: len(client.answers()) == 5)
        assert [each.throttle_time_ms for each in client.answers()[2:]] == [0, 0, 0]
        assert client.connection.shortcut is not None  # nothing is paid any more

    on_a_node(scene, tmp_path)


def test_a_quota_that_is_raised_lets_the_client_go_on_and_another_ones_does_not(tmp_path):
    async def scene(node):
        await quota(node, EVERYBODY, producer_byte_rate=1000.0)
        client = Client(node)
        client.feed(produce_frame("a", 900_000) + produce_frame("a", 10))
        assert client.connection.session.mutes == 1
        await quota(node, (("user", "bob"),), producer_byte_rate=7.0)
        assert client.connection.session.mutes == 1
        await quota(node, EVERYBODY, producer_byte_rate=1e9)
        await until(lambda: len(client.answers()) == 2)
        assert client.answers()[1].throttle_time_ms == 0

    on_a_node(scene, tmp_path)


def test_a_producer_that_used_its_shortcut_gets_a_quota(tmp_path):
    async def scene(node):
        client = Client(node)
        client.feed(produce_frame("a", 10) + produce_frame("a", 10))
        assert client.connection.shortcut is not None
        await quota(node, (("client-id", "load"),), producer_byte_rate=10.0)
        client.feed(produce_frame("a", 1000))
        assert client.connection.session.mutes == 1
        assert client.connection.shortcut is None

    on_a_node(scene, tmp_path)


def test_a_producer_without_acknowledgements_waits_too(tmp_path):
    async def scene(node):
        await quota(node, EVERYBODY, producer_byte_rate=10.0)
        client = Client(node)
        frame = bytearray(produce_frame("a", 1000))
        at = 4 + 14 + 1 + 1  # size, header with client id and tags, null transactional id
        assert frame[at : at + 2] == b"\xff\xff"
        frame[at : at + 2] = b"\x00\x00"
        client.feed(bytes(frame) * 2)
        assert client.connection.session.mutes == 1
        await quota(node, EVERYBODY, producer_byte_rate=None)
        assert not client.transport.closed

    on_a_node(scene, tmp_path)


def fetch(session_id=0, session_epoch=-1, offset=0, max_bytes=1 << 20, replica_id=-1, **asked):
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    values = {
        "replica_id": replica_id,
        "max_wait_ms": 100,
        "min_bytes": 1,
        "max_bytes": max_bytes,
        "session_id": session_id,
        "session_epoch": session_epoch,
        "topics": [FetchTopic(topic="a", partitions=[partition])],
    }
    return FetchRequest(**{**values, **asked})


async def filled(node, *sizes):
    client = Client(node)
    for size in sizes:
        client.feed(produce_frame("a", size))
    await until(lambda: len(client.answers()) == len(sizes))


def records_of(answer):
    return sum(len(row.records or b"") for topic in answer.responses for row in topic.partitions)


V = 11


def test_a_consumer_above_its_quota_gets_an_empty_answer_and_waits(tmp_path):
    async def scene(node):
        await filled(node, 60_000, 60_000, 60_000)
        await quota(node, EVERYBODY, consumer_byte_rate=10_000.0)
        client = Asking(node)
        first = await client.ask(fetch(), V)
        assert first.throttle_time_ms == 0
        assert 60_000 < records_of(first) < 100_000  # one batch: two would be more than ten seconds allow
        second = await client.ask(fetch(offset=1), V)
        assert second.throttle_time_ms > 0
        assert second.responses == []
        assert client.muted
        assert not Asking(node, "another").muted

    on_a_node(scene, tmp_path)


def test_a_session_survives_an_empty_answer_and_a_new_one_is_none(tmp_path):
    async def scene(node):
        await filled(node, 60_000, 60_000)
        client = Asking(node)
        opened = await client.ask(fetch(session_epoch=0, max_bytes=70_000), V)
        assert opened.session_id
        await quota(node, EVERYBODY, consumer_byte_rate=10_000.0)
        node.broker.quotas.limits_of("User:ANONYMOUS", "load").fetched(99_000)
        held = await client.ask(fetch(opened.session_id, 1, offset=1), V)
        assert held.throttle_time_ms > 0
        assert (held.error_code, held.session_id, held.responses) == (0, opened.session_id, [])
        await quota(node, EVERYBODY, consumer_byte_rate=None)
        told = await client.ask(fetch(opened.session_id, 2, topics=[]), V)
        assert records_of(told) > 60_000
        await quota(node, EVERYBODY, consumer_byte_rate=10_000.0)
        node.broker.quotas.limits_of("User:ANONYMOUS", "load").fetched(99_000)
        fresh = await client.ask(fetch(session_epoch=0), V)
        assert (fresh.session_id, fresh.responses) == (0, [])
        assert fresh.throttle_time_ms > 0
        assert len(node.broker.fetch_sessions) == 1

    on_a_node(scene, tmp_path)


def test_a_batch_larger_than_the_quota_allows_is_given_and_paid_for(tmp_path):
    async def scene(node):
        await filled(node, 500_000)
        await quota(node, EVERYBODY, consumer_byte_rate=100.0)
        client = Asking(node)
        answer = await client.ask(fetch(), V)
        assert records_of(answer) > 500_000
        assert answer.throttle_time_ms > 4_000_000
        assert client.muted

    on_a_node(scene, tmp_path)


def test_a_parked_fetch_is_held_back_when_records_come(tmp_path):
    async def scene(node):
        await quota(node, (("client-id", "load"),), consumer_byte_rate=10_000.0)
        client = Asking(node)
        client.send(fetch(max_wait_ms=600_000), V)
        assert client.answer(FetchRequest, V) is None
        node.broker.quotas.limits_of("User:ANONYMOUS", "load").fetched(100_000)
        await filled(node, 60_000)
        await until(lambda: client.transport.sent)
        answer = client.answer(FetchRequest, V)
        assert answer.throttle_time_ms > 0
        assert answer.responses == []
        assert client.muted

    on_a_node(scene, tmp_path)


def test_a_followers_fetch_has_no_quota(tmp_path):
    async def scene(node):
        await filled(node, 500_000)
        await quota(node, EVERYBODY, consumer_byte_rate=1.0, request_percentage=1e-9)
        client = Asking(node)
        answer = await client.ask(fetch(replica_id=1), V)
        assert answer.throttle_time_ms == 0
        answer = await client.ask(OffsetForLeaderEpochRequest(replica_id=1), 3)
        assert answer.throttle_time_ms == 0
        await client.ask(WriteTxnMarkersRequest(), 1)
        assert not client.muted
        assert node.broker.quotas.requests.throttled_count == 0

    on_a_node(scene, tmp_path)


def test_who_only_says_to_be_a_broker_has_a_quota(tmp_path):
    async def scene(node):
        await filled(node, 1_000)
        await quota(node, EVERYBODY, request_percentage=1e-9)
        many = FetchTopic(topic="b", partitions=[FetchPartition(partition=index) for index in range(3000)])
        for request, version in [
            (fetch(replica_id=1), V),
            (fetch(replica_id=1, topics=[many]), V),
            (OffsetForLeaderEpochRequest(replica_id=1), 3),
            (WriteTxnMarkersRequest(), 1),
        ]:
            client = Asking(node)
            await client.ask(request, version)
            assert client.muted, request

    kafkas = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    on_a_node(scene, tmp_path, authorizer_class_name=kafkas)


def test_many_partitions_fetched_in_slices_are_held_back_too(tmp_path):
    async def scene(node):
        await node.controller.create_partitions([MorePartitions("b", 300)])
        await filled(node, 60_000)
        await quota(node, EVERYBODY, consumer_byte_rate=10_000.0)
        client = Asking(node)
        rows = [FetchPartition(partition=index, partition_max_bytes=1 << 20) for index in range(300)]
        topics = [FetchTopic(topic="b", partitions=rows), *fetch().topics]
        first = await client.ask(fetch(topics=topics), V)
        assert first.throttle_time_ms == 0
        assert records_of(first) > 60_000
        second = await client.ask(fetch(topics=topics), V)
        assert second.throttle_time_ms > 0
        assert second.responses == []
        assert client.muted

    on_a_node(scene, tmp_path)


def test_the_time_of_requests(tmp_path):
    async def scene(node):
        await quota(node, EVERYBODY, request_percentage=1e-9)
        meter = node.broker.quotas.limits_of("User:ANONYMOUS", "load").request
        for request, version in [
            (ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3),
            (MetadataRequest(topics=None), 9),  # an answer that is kept encoded
            (MetadataRequest(topics=[MetadataRequestTopic(name="a")]), 9),
            (fetch(max_wait_ms=0), V),
            (
                create(("c", 1)),
                5,
            ),
        ]:
            client = Asking(node)
            before = meter.per_second()
            answer = await client.ask(request, version)
            assert 0 < answer.throttle_time_ms <= 1000, request
            assert client.muted
            assert meter.per_second() > before
        for request, version in [
            (ApiVersionsRequest(), 0),  # no field for the delay: muted all the same
            (MetadataRequest(topics=None), 1),
            (DescribeQuorumRequest(), 0),
        ]:
            client = Asking(node)
            await client.ask(request, version)
            assert client.muted
        again = await Asking(node, "x").ask(MetadataRequest(topics=None), 9)
        await quota(node, EVERYBODY, request_percentage=None)
        client = Asking(node)
        clean = await client.ask(MetadataRequest(topics=None), 9)
        assert (again.throttle_time_ms > 0, clean.throttle_time_ms) == (True, 0)
        assert not client.muted

    on_a_node(scene, tmp_path)


def test_requests_of_one_connection_with_two_client_ids_are_charged_apart(tmp_path):
    async def scene(node):
        await quota(node, (("client-id", "slow"),), producer_byte_rate=10.0)
        client = Client(node)
        slow = produce_frame("a", 1000).replace(b"\x00\x04load", b"\x00\x04slow")
        client.feed(produce_frame("a", 1000) * 2)
        assert client.connection.session.mutes == 0
        client.feed(slow)
        assert client.connection.session.mutes == 1

    on_a_node(scene, tmp_path)


def create(*topics):
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(name=name, num_partitions=count, replication_factor=1) for name, count in topics
        ],
        timeout_ms=10_000,
    )


def test_topics_beyond_the_quota_are_refused_one_by_one(tmp_path):
    async def scene(node):
        await quota(node, EVERYBODY, controller_mutation_rate=0.001)
        client = Asking(node)
        answer = await client.ask(create(("x", 5), ("a", 1), ("y", 5), ("z", 1)))
        told = {row.name: row.error_code for row in answer.topics}
        assert told == {
            "x": ErrorCode.NONE,
            "a": ErrorCode.TOPIC_ALREADY_EXISTS,
            "y": ErrorCode.THROTTLING_QUOTA_EXCEEDED,
            "z": ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        }
        assert answer.throttle_time_ms > 4_000_000
        assert client.muted
        assert "y" not in node.metadata.image.topics
        more = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="a", count=9, assignments=None)], timeout_ms=10_000
        )
        told = await Asking(node).ask(more)
        assert told.results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert told.throttle_time_ms > 0
        gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], timeout_ms=10_000)
        told = await Asking(node).ask(gone)
        assert told.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        only = create(("w", 50))
        only.validate_only = True
        answer = await Asking(node).ask(only)
        assert (answer.topics[0].error_code, answer.throttle_time_ms) == (0, 0)
        await quota(node, EVERYBODY, controller_mutation_rate=None)
        answer = await client.ask(create(("y", 5), ("z", 1)))
        assert [row.error_code for row in answer.topics] == [0, 0]

    on_a_node(scene, tmp_path)


def test_older_versions_make_everything_and_wait(tmp_path):
    async def scene(node):
        await quota(node, EVERYBODY, controller_mutation_rate=0.001)
        client = Asking(node)
        answer = await client.ask(create(("x", 5), ("y", 5)), 5)
        assert [row.error_code for row in answer.topics] == [0, 0]
        assert answer.throttle_time_ms > 9_000_000
        assert client.muted
        other = Asking(node)
        answer = await other.ask(MetadataRequest(topics=[MetadataRequestTopic(name="made")]), 9)
        assert "made" in node.metadata.image.topics
        assert answer.throttle_time_ms > 9_000_000

    on_a_node(scene, tmp_path)


def test_connections_of_an_address_beyond_its_rate_are_kept_unserved_and_closed(tmp_path):
    async def scene(node):
        await quota(node, (("ip", "127.0.0.1"),), connection_creation_rate=1.0)
        clients = [Client(node) for _ in range(100)]
        listener = node.listeners.all[0]
        served = [each for each in clients if each.connection in listener.connections]
        assert 10 <= len(served) < 100
        late = next(each for each in clients if each.connection in listener.delayed)
        late.feed(produce_frame("a", 10))
        assert not late.transport.sent
        await until(lambda: late.transport.closed)
        served[0].feed(produce_frame("a", 10))
        await until(lambda: len(served[0].answers()) == 1)
        late.connection.connection_lost(None)
        assert late.connection not in listener.delayed
        await quota(node, (("ip", "127.0.0.1"),), connection_creation_rate=None)
        assert Client(node).connection in listener.connections

    on_a_node(scene, tmp_path)


def test_quotas_hold_again_after_a_restart(tmp_path):
    async def before(node):
        assert node.broker.quotas is None  # nothing is made without one
        await quota(node, EVERYBODY, producer_byte_rate=10.0)

    async def after(node):
        client = Client(node)
        client.feed(produce_frame("a", 1000))
        assert client.connection.session.mutes == 1

    on_a_node(before, tmp_path)
    on_a_node(after, tmp_path)


def test_a_client_that_goes_while_it_waits_leaves_nothing(tmp_path):
    async def scene(node):
        await quota(node, EVERYBODY, producer_byte_rate=10.0)
        client = Client(node)
        client.feed(produce_frame("a", 1000))
        assert client.connection.session.mutes == 1
        client.connection.connection_lost(None)
        assert not node.listeners.all[0].muted
        assert not client.connection.mute_timers

    on_a_node(scene, tmp_path)


def test_a_quota_holds_on_every_broker_and_each_measures_by_itself(tmp_path):
    async def scene(brokers):
        first, second = brokers.nodes[1], brokers.nodes[2]
        await quota(first, EVERYBODY, request_percentage=1e-9)
        await brokers.in_step()
        for node in (first, second):
            client = client_of(node)
            client.feed(frame_request(18, 0, 1, "load", b""))
            assert client.connection.session.mutes == 1
        await quota(second, EVERYBODY, request_percentage=None)
        await brokers.in_step()
        await until(lambda: not any(each.muted for node in (first, second) for each in node.listeners.all))
        assert first.metadata.image.quotas == {}

    with_brokers(tmp_path, (1, 2), scene)


def test_an_older_cluster_says_how_to_raise_its_level(tmp_path):
    async def scene(node):
        ((_, outcome),) = await node.controller.alter_quotas(
            [AlterQuotas(EVERYBODY, (("producer_byte_rate", 1.0),))]
        )
        assert outcome.error_code is ErrorCode.UNSUPPORTED_VERSION
        assert "kafka-features upgrade" in outcome.message

    async def old(node):
        image = node.metadata.image._replace(level=2)
        node.metadata.publish(image, ())
        await scene(node)

    on_a_node(old, tmp_path)
