"""The cluster (a proxy has one) and its brokers."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from moldau.client.admin.topics import Broker, ClusterView, describe_cluster, describe_topics
from moldau.services.rest.v3.call import Call
from moldau.services.rest.v3.errors import not_found
from moldau.services.rest.v3.operations import Right, operation
from moldau.services.rest.v3.replicas import replica_data
from moldau.services.rest.v3.resources import Links, collection, resource

_SEE_CLUSTER = Right("read", "cluster")
_CLUSTERS, _BROKERS = "Cluster (v3)", "Broker (v3)"


@operation(
    "GET",
    "/clusters",
    "listKafkaV3Clusters",
    "List clusters: the one that this proxy serves",
    tag=_CLUSTERS,
    right=None,
    answers={200: "ClusterDataList"},
)
async def list_clusters(call: Call) -> Response:
    view = await call.ask(describe_cluster)
    data = [_cluster_data(call.links, view)]
    return call.answer(collection("KafkaClusterList", call.links.url("clusters"), data))


@operation(
    "GET",
    "/clusters/{cluster_id}",
    "getKafkaV3Cluster",
    "Describe a cluster",
    tag=_CLUSTERS,
    right=None,
    answers={200: "ClusterData"},
)
async def get_cluster(call: Call) -> Response:
    return call.answer(_cluster_data(call.links, await call.ask(describe_cluster)))


def _cluster_data(links: Links, view: ClusterView) -> dict[str, Any]:
    base = ("clusters", view.cluster_id)
    fields: dict[str, Any] = {"cluster_id": view.cluster_id}
    if view.controller_id >= 0:
        fields["controller"] = links.related(*base, "brokers", view.controller_id)
    fields |= {
        "acls": links.related(*base, "acls"),
        "brokers": links.related(*base, "brokers"),
        "broker_configs": links.related(*base, "broker-configs"),
        "consumer_groups": links.related(*base, "consumer-groups"),
        "topics": links.related(*base, "topics"),
        "partition_reassignments": links.related(*base, "topics", "-", "partitions", "-", "reassignment"),
    }
    return resource("KafkaCluster", links.url(*base), links.crn("kafka", view.cluster_id), fields)


@operation(
    "GET",
    "/clusters/{cluster_id}/brokers",
    "listKafkaV3Brokers",
    "List brokers",
    tag=_BROKERS,
    right=_SEE_CLUSTER,
    answers={200: "BrokerDataList"},
)
async def list_brokers(call: Call) -> Response:
    view = await call.ask(describe_cluster)
    data = [_broker_data(call, each) for each in view.brokers]
    return call.answer(
        collection("KafkaBrokerList", call.links.url("clusters", call.cluster_id, "brokers"), data)
    )


@operation(
    "GET",
    "/clusters/{cluster_id}/brokers/{broker_id}",
    "getKafkaV3Broker",
    "Describe a broker",
    tag=_BROKERS,
    right=_SEE_CLUSTER,
    answers={200: "BrokerData"},
)
async def get_broker(call: Call) -> Response:
    return call.answer(_broker_data(call, await _broker(call)))


@operation(
    "GET",
    "/clusters/{cluster_id}/brokers/{broker_id}/partition-replicas",
    "searchKafkaV3ReplicasByBroker",
    "List the replicas that a broker has",
    tag=_BROKERS,
    right=_SEE_CLUSTER,
    answers={200: "ReplicaDataList"},
)
async def list_replicas_of_broker(call: Call) -> Response:
    broker_id = (await _broker(call)).broker_id
    topics = await call.ask(describe_topics)
    found = [
        (topic.name, part) for topic in topics for part in topic.partitions if broker_id in part.replicas
    ]
    base = ("clusters", call.cluster_id, "brokers", broker_id)
    url = call.links.url(*base, "partition-replicas")
    return await call.answer_list(
        "KafkaReplicaList", url, found, lambda row: replica_data(call, *row, broker_id)
    )


async def _broker(call: Call) -> Broker:
    broker_id = call.number("broker_id")
    for each in (await call.ask(describe_cluster)).brokers:
        if each.broker_id == broker_id:
            return each
    raise not_found(f"Broker {broker_id} cannot be found in cluster {call.cluster_id}.")


def _broker_data(call: Call, broker: Broker) -> dict[str, Any]:
    links, base = call.links, ("clusters", call.cluster_id, "brokers", broker.broker_id)
    return resource(
        "KafkaBroker",
        links.url(*base),
        links.crn("kafka", call.cluster_id, "broker", broker.broker_id),
        {
            "cluster_id": call.cluster_id,
            "broker_id": broker.broker_id,
            "host": broker.host,
            "port": broker.port,
            "rack": broker.rack,
            "configs": links.related(*base, "configs"),
            "partition_replicas": links.related(*base, "partition-replicas"),
        },
    )
