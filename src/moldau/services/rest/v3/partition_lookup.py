"""The topic and the partition that a path names."""

from __future__ import annotations

from functools import partial

from moldau.client.admin.topics import Partition, Topic, describe_topics
from moldau.services.http.problems import HttpProblem
from moldau.services.rest.v3.call import Call
from moldau.services.rest.v3.errors import PARTITION_NOT_FOUND


async def find_topic(call: Call, *, operations: bool = False) -> Topic:
    """The topic `topic_name`. HttpProblem 40403."""
    asked = partial(describe_topics, names=[call.path["topic_name"]], operations=operations)
    (topic,) = await call.ask(asked)
    return topic


async def find_partition(call: Call) -> Partition:
    """The partition `partition_id` of `topic_name`. HttpProblem 40403, 40402."""
    wanted = call.number("partition_id")
    for each in (await find_topic(call)).partitions:
        if each.partition_id == wanted:
            return each
    raise HttpProblem(PARTITION_NOT_FOUND, "Partition not found.")
