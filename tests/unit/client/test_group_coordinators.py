"""Groups are asked for again while their coordinator loads or moves, and a refusal keeps its cause."""

from __future__ import annotations

import pytest
from scripted_broker import ScriptedBroker

from moldau.client.admin import groups
from moldau.client.admin.groups import Committed, committed_offsets, describe_all_groups, find_group
from moldau.client.cluster import Cluster
from moldau.client.errors import ClusterTimeout, RequestRefused
from moldau.common.protocol.declare import Message
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from moldau.common.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from moldau.common.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from moldau.common.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from moldau.common.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

FOR_THE_MOMENT = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
OPTIONS = {"default.api.timeout.ms": "5000"}


class Coordinators:
    """A broker whose coordinators answer with these codes first, and then as they should."""

    def __init__(self, *codes: int, offset_fetch_version: int = 9) -> None:
        self.codes = list(codes)
        self.find_error = 0
        self.broker = ScriptedBroker(
            {
                FindCoordinatorRequest: self._find,
                OffsetFetchRequest: self._fetch,
                ListGroupsRequest: self._list,
                DescribeGroupsRequest: self._describe,
            },
            versions={OffsetFetchRequest: offset_fetch_version},
        )

    def count(self, kind: type[Message]) -> int:
        return sum(isinstance(each, kind) for each in self.broker.requests)

    def _code(self) -> int:
        return self.codes.pop(0) if self.codes else 0

    def _find(self, request: Message) -> Message:
        found = Coordinator(
            key="g", node_id=1, host="127.0.0.1", port=self.broker.port, error_code=self.find_error
        )
        return FindCoordinatorResponse(coordinators=[found])

    def _fetch(self, request: Message) -> Message:
        code = self._code()
        if request.groups:  # type: ignore[attr-defined]
            row = OffsetFetchResponsePartitions(partition_index=0, committed_offset=7)
            topic = OffsetFetchResponseTopics(name="t", partitions=[row])
            group = OffsetFetchResponseGroup(group_id="g", error_code=code, topics=[] if code else [topic])
            return OffsetFetchResponse(groups=[group])
        old_row = OffsetFetchResponsePartition(partition_index=0, committed_offset=7)
        old_topic = OffsetFetchResponseTopic(name="t", partitions=[old_row])
        return OffsetFetchResponse(error_code=code, topics=[] if code else [old_topic])

    def _list(self, request: Message) -> Message:
        code = self._code()
        listed = ListedGroup(
            group_id="g", protocol_type="consumer", group_state="Empty", group_type="Classic"
        )
        return ListGroupsResponse(error_code=code, groups=[] if code else [listed])

    def _describe(self, request: Message) -> Message:
        code = self._code()
        group = DescribedGroup(
            error_code=code, group_id="g", group_state="Empty", protocol_type="consumer", protocol_data=""
        )
        return DescribeGroupsResponse(groups=[group])


@pytest.mark.parametrize("version", [7, 9])
def test_committed_offsets_wait_for_a_coordinator_that_loads_and_follow_one_that_moves(version: int) -> None:
    world = Coordinators(*FOR_THE_MOMENT, offset_fetch_version=version)
    with world.broker, Cluster(world.broker.address, OPTIONS) as cluster:
        assert committed_offsets(cluster, "g") == {("t", 0): Committed(7)}
    assert world.count(FindCoordinatorRequest) == len(FOR_THE_MOMENT) + 1


def test_committed_offsets_that_stay_unavailable_end_with_the_reason() -> None:
    world = Coordinators(*[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 1000)
    with (
        world.broker,
        Cluster(world.broker.address, {"default.api.timeout.ms": "500"}) as cluster,
        pytest.raises(ClusterTimeout, match=r"read the offsets of group g.*COORDINATOR_LOAD_IN_PROGRESS"),
    ):
        committed_offsets(cluster, "g")


def test_a_broker_that_loads_is_listed_once_it_has() -> None:
    world = Coordinators(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    with world.broker, Cluster(world.broker.address, OPTIONS) as cluster:
        assert [each.group_id for each in groups.list_groups(cluster)] == ["g"]
    assert world.count(ListGroupsRequest) == 3


@pytest.mark.parametrize("code", FOR_THE_MOMENT)
def test_a_group_that_moves_between_its_list_and_its_description_is_there(code: int) -> None:
    world = Coordinators(0, code)
    with world.broker, Cluster(world.broker.address, OPTIONS) as cluster:
        assert [each.group_id for each in describe_all_groups(cluster)] == ["g"]


def test_a_missing_right_is_not_taken_for_a_missing_group(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Coordinators()
    with world.broker, Cluster(world.broker.address, OPTIONS) as cluster:
        found = find_group(cluster, "g")
        assert found is not None
        assert found.type == "CLASSIC", "the broker does not know the request of the new protocol"
        assert world.count(ConsumerGroupDescribeRequest) == 0
        # The right is withdrawn, and the coordinator asked for again, after its first look-up.
        held = groups.coordinator_of(cluster, "g")
        monkeypatch.setattr(groups, "coordinator_of", lambda cluster, group_id: held)
        cluster.forget_coordinator("g")
        world.find_error = ErrorCode.GROUP_AUTHORIZATION_FAILED
        with pytest.raises(RequestRefused, match="GROUP_AUTHORIZATION_FAILED"):
            find_group(cluster, "g")
