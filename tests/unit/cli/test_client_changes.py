"""Changes that client/admin asks for over a cluster that is a function: topics, records, features."""

from __future__ import annotations

from typing import Any

import pytest
from fake_layout import FakeTime, Retriable, fake_layout

from moldau.client.admin.features import SAFE_DOWNGRADE, update_features
from moldau.client.admin.problem import KafkaProblem
from moldau.client.admin.records import Trimmed, delete_records
from moldau.client.admin.topics import (
    NewTopic,
    create_topic,
    create_topics,
    delete_topics,
    enlarge_topics,
)
from moldau.client.errors import ClusterTimeout
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages import create_partitions as enlarging
from moldau.common.protocol.messages import create_topics as creating
from moldau.common.protocol.messages import delete_records as trimming
from moldau.common.protocol.messages import delete_topics as deleting
from moldau.common.protocol.messages import update_features as features

PLACES = {("orders", 0): (1, 2), ("orders", 1): (2, 1), ("gone", 0): (-1, 2)}


class Creating:
    """A controller (broker 1) that refuses topics by name."""

    def __init__(self, refused: dict[str, int], moved: int = 0) -> None:
        self.refused, self.moved = refused, moved
        self.requests: list[creating.CreateTopicsRequest] = []
        self.cluster = fake_layout([1, 2], PLACES, self.answer).cluster

    def answer(self, broker: int, request: Any) -> Any:
        assert broker == 1
        if isinstance(request, creating.CreateTopicsRequest):
            self.requests.append(request)
        rows = []
        for each in request.topics:
            code = ErrorCode.NOT_CONTROLLER if self.moved > 0 else self.refused.get(each.name, 0)
            words = "no, because" if code == ErrorCode.POLICY_VIOLATION else None
            rows.append(
                creating.CreatableTopicResult(
                    name=each.name, error_code=code, error_message=words, num_partitions=3, configs=[]
                )
            )
        self.moved -= 1
        return creating.CreateTopicsResponse(topics=rows)


def test_some_topics_are_made_and_each_refusal_has_its_reason() -> None:
    world = Creating({"b": ErrorCode.POLICY_VIOLATION, "c": ErrorCode.TOPIC_ALREADY_EXISTS})
    topics = [NewTopic(name, 3, configs={"retention.ms": "1"}) for name in "abc"]
    created, refused = create_topics(world.cluster, topics, validate_only=True, timeout_seconds=7.0)
    assert {name: each.partitions for name, each in created.items()} == {"a": 3}
    assert {name: (each.name, each.words) for name, each in refused.items()} == {
        "b": ("POLICY_VIOLATION", "no, because"),
        "c": ("TOPIC_ALREADY_EXISTS", KafkaProblem(ErrorCode.TOPIC_ALREADY_EXISTS).words),
    }
    (request,) = world.requests
    assert (request.validate_only, request.timeout_ms) == (True, 7_000)
    assert [(each.name, each.num_partitions, each.replication_factor) for each in request.topics] == [
        ("a", 3, -1),
        ("b", 3, -1),
        ("c", 3, -1),
    ]


def test_replicas_that_are_named_stand_for_the_counts() -> None:
    world = Creating({})
    create_topic(world.cluster, "a", partitions=5, replication_factor=3, assignments={0: [2], 1: [1]})
    (topic,) = world.requests[0].topics
    assert (topic.num_partitions, topic.replication_factor) == (-1, -1)
    assert [(each.partition_index, each.broker_ids) for each in topic.assignments] == [(0, [2]), (1, [1])]


def test_a_controller_that_has_moved_is_asked_again_and_a_refusal_is_not() -> None:
    world = Creating({"a": ErrorCode.INVALID_REPLICATION_FACTOR}, moved=2)
    with pytest.raises(KafkaProblem, match="eplication"):
        create_topic(world.cluster, "a")
    assert len(world.requests) == 3


def test_many_topics_go_in_slices() -> None:
    world = Creating({"t-7": ErrorCode.POLICY_VIOLATION, "t-1100": ErrorCode.POLICY_VIOLATION})
    created, refused = create_topics(world.cluster, [NewTopic(f"t-{each}") for each in range(1_200)])
    assert [len(each.topics) for each in world.requests] == [500, 500, 200]
    assert (len(created), sorted(refused)) == (1_198, ["t-1100", "t-7"])


def test_a_topic_that_the_answer_does_not_name_is_not_done() -> None:
    answer = deleting.DeleteTopicsResponse(responses=[deleting.DeletableTopicResult(name="a")])
    cluster = fake_layout([1], {}, lambda broker, request: answer).cluster
    assert {name: each.name for name, each in delete_topics(cluster, ["a", "b"]).items()} == {
        "b": "UNKNOWN_SERVER_ERROR"
    }


@pytest.mark.parametrize(("version", "by_state"), [(5, False), (6, True)])
def test_topics_are_deleted_in_the_words_of_the_brokers_version(
    version: int, by_state: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "fake_layout.FakeConnection.version_of",
        lambda self, api, at_most=0: version if api is deleting.DeleteTopicsRequest else api.VERSIONS[1],
    )
    seen: list[deleting.DeleteTopicsRequest] = []

    def answer(broker: int, request: deleting.DeleteTopicsRequest) -> deleting.DeleteTopicsResponse:
        seen.append(request)
        return deleting.DeleteTopicsResponse(responses=[deleting.DeletableTopicResult(name="a")])

    assert delete_topics(fake_layout([1], {}, answer).cluster, ["a"]) == {}
    assert (bool(seen[0].topics), bool(seen[0].topic_names)) == (by_state, not by_state)


def test_partitions_are_added_with_their_replicas() -> None:
    seen: list[enlarging.CreatePartitionsRequest] = []

    def answer(broker: int, request: enlarging.CreatePartitionsRequest) -> Any:
        seen.append(request)
        rows = [
            enlarging.CreatePartitionsTopicResult(name="a"),
            enlarging.CreatePartitionsTopicResult(
                name="b", error_code=ErrorCode.INVALID_PARTITIONS, error_message="it has 9"
            ),
        ]
        return enlarging.CreatePartitionsResponse(results=rows)

    cluster = fake_layout([1], {}, answer).cluster
    refused = enlarge_topics(cluster, {"a": 3, "b": 3}, assignments={"a": [[1], [2]]})
    assert {name: str(each) for name, each in refused.items()} == {"b": "it has 9"}
    first, second = seen[0].topics
    assert [each.broker_ids for each in first.assignments or ()] == [[1], [2]]
    assert (first.count, second.assignments) == (3, None)


class Trimming:
    """Leaders that delete records; the first `moving` answers of broker 2 say that it leads no longer."""

    def __init__(self, moving: int = 0, broken: int = 0) -> None:
        self.moving, self.broken = moving, broken
        self.asked: list[tuple[int, list[tuple[str, int, int]]]] = []
        self.time = FakeTime()
        self.cluster = fake_layout([1, 2], PLACES, self.answer, self.time).cluster

    def answer(self, broker: int, request: trimming.DeleteRecordsRequest) -> Any:
        rows = [
            (topic.name, each.partition_index, each.offset)
            for topic in request.topics
            for each in topic.partitions
        ]
        self.asked.append((broker, rows))
        if broker == 2 and self.broken > 0:
            self.broken -= 1
            raise Retriable("the connection broke")
        code = 0
        if broker == 2 and self.moving > 0:
            self.moving -= 1
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return trimming.DeleteRecordsResponse(
            topics=[
                trimming.DeleteRecordsTopicResult(
                    name=name,
                    partitions=[
                        trimming.DeleteRecordsPartitionResult(
                            partition_index=index, low_watermark=-1 if code else offset, error_code=code
                        )
                    ],
                )
                for name, index, offset in rows
            ]
        )


def test_each_leader_is_asked_once_and_again_only_for_what_is_left() -> None:
    world = Trimming(moving=1, broken=1)
    before = {("orders", 1): 7, ("orders", 0): 5, ("none", 0): 1}
    found = delete_records(world.cluster, before)
    assert list(found.items()) == [
        (("orders", 1), Trimmed(7, 0)),
        (("orders", 0), Trimmed(5, 0)),
        (("none", 0), Trimmed(-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)),
    ]
    assert world.asked == [
        (1, [("orders", 0, 5)]),
        (2, [("orders", 1, 7)]),
        (2, [("orders", 1, 7)]),
        (2, [("orders", 1, 7)]),
    ]


def test_a_partition_without_a_leader_costs_the_others_nothing() -> None:
    world = Trimming()
    found = delete_records(world.cluster, {("gone", 0): 1, ("orders", 0): 5})
    assert found == {
        ("gone", 0): Trimmed(-1, ErrorCode.LEADER_NOT_AVAILABLE),
        ("orders", 0): Trimmed(5, 0),
    }
    assert world.asked == [(1, [("orders", 0, 5)])]
    assert world.time.now_seconds <= 10.0


def test_brokers_that_do_not_answer_are_an_error() -> None:
    world = Trimming(broken=1_000)
    with pytest.raises(ClusterTimeout, match="the connection broke"):
        delete_records(world.cluster, {("orders", 1): 7})


def test_an_error_of_the_whole_request_is_every_features() -> None:
    def answer(broker: int, request: features.UpdateFeaturesRequest) -> Any:
        assert broker == 1
        assert {each.upgrade_type for each in request.feature_updates} == {SAFE_DOWNGRADE}
        return features.UpdateFeaturesResponse(
            error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message="not below 2"
        )

    cluster = fake_layout([1, 2], {}, answer).cluster
    refused = update_features(cluster, {"a": 1, "b": 0}, SAFE_DOWNGRADE)
    assert {name: (each.name, str(each)) for name, each in refused.items()} == {
        "a": ("INVALID_UPDATE_VERSION", "not below 2"),
        "b": ("INVALID_UPDATE_VERSION", "not below 2"),
    }
