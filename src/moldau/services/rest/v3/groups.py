"""Consumer groups, their members and assignments."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from starlette.responses import Response

from moldau.client.admin.groups import Group, Member, describe_all_groups, describe_group
from moldau.services.rest.v3.call import Call
from moldau.services.rest.v3.errors import not_found
from moldau.services.rest.v3.operations import Right, operation
from moldau.services.rest.v3.resources import resource

_TAG = "Consumer Group (v3)"
_PATH = "/clusters/{cluster_id}/consumer-groups"
_GROUP = _PATH + "/{consumer_group_id}"
_SEE_GROUP = Right("read", "group", "consumer_group_id")


@operation(
    "GET",
    _PATH,
    "listKafkaV3ConsumerGroups",
    "List consumer groups",
    tag=_TAG,
    right=Right("read", "group"),
    answers={200: "ConsumerGroupDataList"},
)
async def list_groups(call: Call) -> Response:
    found = await call.ask(describe_all_groups)
    seen = [each for each in found if call.may("read", "group", each.group_id)]
    url = call.links.url("clusters", call.cluster_id, "consumer-groups")
    return await call.answer_list("KafkaConsumerGroupList", url, seen, partial(_group_data, call))


@operation(
    "GET",
    _GROUP,
    "getKafkaV3ConsumerGroup",
    "Describe a consumer group",
    tag=_TAG,
    right=_SEE_GROUP,
    answers={200: "ConsumerGroupData"},
)
async def get_group(call: Call) -> Response:
    return call.answer(_group_data(call, await _group(call)))


@operation(
    "GET",
    _GROUP + "/consumers",
    "listKafkaV3Consumers",
    "List the members of a consumer group",
    tag=_TAG,
    right=_SEE_GROUP,
    answers={200: "ConsumerDataList"},
)
async def list_consumers(call: Call) -> Response:
    group = await _group(call)
    url = call.links.url(*_base(call), "consumers")
    members = sorted(group.members, key=lambda each: each.member_id)
    return await call.answer_list("KafkaConsumerList", url, members, partial(_consumer_data, call))


@operation(
    "GET",
    _GROUP + "/consumers/{consumer_id}",
    "getKafkaV3Consumer",
    "Describe a member of a consumer group",
    tag=_TAG,
    right=_SEE_GROUP,
    answers={200: "ConsumerData"},
)
async def get_consumer(call: Call) -> Response:
    return call.answer(_consumer_data(call, await _member(call)))


@operation(
    "GET",
    _GROUP + "/consumers/{consumer_id}/assignments",
    "listKafkaV3ConsumerAssignment",
    "List the partitions that a member is assigned",
    tag=_TAG,
    right=_SEE_GROUP,
    answers={200: "ConsumerAssignmentDataList"},
)
async def list_assignments(call: Call) -> Response:
    member = await _member(call)
    url = call.links.url(*_base(call), "consumers", member.member_id, "assignments")
    return await call.answer_list(
        "KafkaConsumerAssignmentList",
        url,
        member.assignment,
        lambda place: _assignment_data(call, member, *place),
    )


@operation(
    "GET",
    _GROUP + "/consumers/{consumer_id}/assignments/{topic_name}/partitions/{partition_id}",
    "getKafkaV3ConsumerAssignment",
    "Describe the assignment of a partition to a member",
    tag=_TAG,
    right=_SEE_GROUP,
    answers={200: "ConsumerAssignmentData"},
)
async def get_assignment(call: Call) -> Response:
    member = await _member(call)
    place = (call.path["topic_name"], call.number("partition_id"))
    if place not in member.assignment:
        raise not_found(f"{place[0]}-{place[1]} is not assigned to {member.member_id}.")
    return call.answer(_assignment_data(call, member, *place))


async def _group(call: Call) -> Group:
    return await call.ask(partial(describe_group, group_id=call.path["consumer_group_id"]))


async def _member(call: Call) -> Member:
    wanted = call.path["consumer_id"]
    for each in (await _group(call)).members:
        if each.member_id == wanted:
            return each
    raise not_found(f"Consumer {wanted} cannot be found in group {call.path['consumer_group_id']}.")


def _base(call: Call) -> tuple[str, ...]:
    return ("clusters", call.cluster_id, "consumer-groups", call.path["consumer_group_id"])


def _group_data(call: Call, group: Group) -> dict[str, Any]:
    links, base = call.links, ("clusters", call.cluster_id, "consumer-groups", group.group_id)
    return resource(
        "KafkaConsumerGroup",
        links.url(*base),
        links.crn("kafka", call.cluster_id, "consumer-group", group.group_id),
        {
            "cluster_id": call.cluster_id,
            "consumer_group_id": group.group_id,
            "is_simple": group.is_simple,
            "partition_assignor": group.assignor,
            "state": state_name(group.state),
            "type": group.type,
            "is_mixed_consumer_group": group.is_mixed,
            "coordinator": links.related("clusters", call.cluster_id, "brokers", group.coordinator.broker_id),
            "consumers": links.related(*base, "consumers"),
            "lag_summary": links.related(*base, "lag-summary"),
        },
    )


def state_name(state: str) -> str:
    """A group's state as v3 spells it: PREPARING_REBALANCE for PreparingRebalance."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", state).upper() or "UNKNOWN"


def _consumer_data(call: Call, member: Member) -> dict[str, Any]:
    links, base = call.links, (*_base(call), "consumers", member.member_id)
    group_id = call.path["consumer_group_id"]
    return resource(
        "KafkaConsumer",
        links.url(*base),
        links.crn("kafka", call.cluster_id, "consumer-group", group_id, "consumer", member.member_id),
        {
            "cluster_id": call.cluster_id,
            "consumer_group_id": group_id,
            "consumer_id": member.member_id,
            "instance_id": member.instance_id,
            "client_id": member.client_id,
            "assignments": links.related(*base, "assignments"),
        },
    )


def _assignment_data(call: Call, member: Member, topic: str, index: int) -> dict[str, Any]:
    links, group_id = call.links, call.path["consumer_group_id"]
    return resource(
        "KafkaConsumerAssignment",
        links.url(*_base(call), "consumers", member.member_id, "assignments", topic, "partitions", index),
        links.crn(
            *("kafka", call.cluster_id, "consumer-group", group_id, "consumer", member.member_id),
            *("assignment", topic, "partition", index),
        ),
        {
            "cluster_id": call.cluster_id,
            "consumer_group_id": group_id,
            "consumer_id": member.member_id,
            "topic_name": topic,
            "partition_id": index,
            "partition": links.related("clusters", call.cluster_id, "topics", topic, "partitions", index),
            "lag": links.related(*_base(call), "lags", topic, "partitions", index),
        },
    )
