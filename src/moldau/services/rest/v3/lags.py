"""How far a consumer group is behind: in a partition, in all, and a summary."""

from __future__ import annotations

from functools import partial
from typing import Any

from starlette.responses import Response

from moldau.client.admin.groups import Lag, lags_of
from moldau.services.rest.v3.call import Call
from moldau.services.rest.v3.errors import not_found
from moldau.services.rest.v3.operations import Right, operation
from moldau.services.rest.v3.resources import resource

_TAG = "Consumer Group (v3)"
_GROUP = "/clusters/{cluster_id}/consumer-groups/{consumer_group_id}"
_SEE_GROUP = Right("read", "group", "consumer_group_id")


@operation(
    "GET",
    _GROUP + "/lag-summary",
    "getKafkaV3ConsumerGroupLagSummary",
    "The largest lag of a consumer group, and the sum",
    tag=_TAG,
    right=_SEE_GROUP,
    answers={200: "ConsumerGroupLagSummaryData"},
)
async def get_summary(call: Call) -> Response:
    lags = await _lags(call)
    largest = max(lags, key=lambda each: each.lag)
    links, base, member = call.links, _base(call), largest.member
    fields: dict[str, Any] = {
        "cluster_id": call.cluster_id,
        "consumer_group_id": call.path["consumer_group_id"],
        "max_lag_consumer_id": member.member_id if member else "",
        "max_lag_instance_id": member.instance_id if member else None,
        "max_lag_client_id": member.client_id if member else "",
        "max_lag_topic_name": largest.topic,
        "max_lag_partition_id": largest.partition,
        "max_lag": largest.lag,
        "total_lag": sum(each.lag for each in lags),
        "max_lag_consumer": links.related(*base, "consumers", member.member_id if member else ""),
        "max_lag_partition": links.related(
            "clusters", call.cluster_id, "topics", largest.topic, "partitions", largest.partition
        ),
    }
    name = links.crn(
        "kafka", call.cluster_id, "consumer-group", call.path["consumer_group_id"], "lag-summary"
    )
    return call.answer(
        resource("KafkaConsumerGroupLagSummary", links.url(*base, "lag-summary"), name, fields)
    )


@operation(
    "GET",
    _GROUP + "/lags",
    "listKafkaV3ConsumerLags",
    "List the lag of a consumer group in every partition",
    tag=_TAG,
    right=_SEE_GROUP,
    answers={200: "ConsumerLagDataList"},
)
async def list_lags(call: Call) -> Response:
    url = call.links.url(*_base(call), "lags")
    return await call.answer_list("KafkaConsumerLagList", url, await _lags(call), partial(_lag_data, call))


@operation(
    "GET",
    _GROUP + "/lags/{topic_name}/partitions/{partition_id}",
    "getKafkaV3ConsumerLag",
    "The lag of a consumer group in a partition",
    tag=_TAG,
    right=_SEE_GROUP,
    answers={200: "ConsumerLagData"},
)
async def get_lag(call: Call) -> Response:
    place = (call.path["topic_name"], call.number("partition_id"))
    for each in await _lags(call):
        if (each.topic, each.partition) == place:
            return call.answer(_lag_data(call, each))
    raise not_found(
        f"Group {call.path['consumer_group_id']} has committed nothing for {place[0]}-{place[1]}."
    )


async def _lags(call: Call) -> list[Lag]:
    group_id = call.path["consumer_group_id"]
    found = await call.ask(partial(lags_of, group_id=group_id))
    if not found:
        raise not_found("Consumer group offsets could not be found.")
    return found


def _base(call: Call) -> tuple[str, ...]:
    return ("clusters", call.cluster_id, "consumer-groups", call.path["consumer_group_id"])


def _lag_data(call: Call, lag: Lag) -> dict[str, Any]:
    group_id, member = call.path["consumer_group_id"], lag.member
    return resource(
        "KafkaConsumerLag",
        call.links.url(*_base(call), "lags", lag.topic, "partitions", lag.partition),
        call.links.crn(
            *("kafka", call.cluster_id, "consumer-group", group_id),
            *("lag", lag.topic, "partition", lag.partition),
        ),
        {
            "cluster_id": call.cluster_id,
            "consumer_group_id": group_id,
            "topic_name": lag.topic,
            "partition_id": lag.partition,
            "consumer_id": member.member_id if member else "",
            "instance_id": member.instance_id if member else None,
            "client_id": member.client_id if member else "",
            "current_offset": lag.current_offset,
            "log_end_offset": lag.end_offset,
            "lag": lag.lag,
        },
    )
