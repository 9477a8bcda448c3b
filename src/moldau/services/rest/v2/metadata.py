"""Metadata in v2: topics, partitions, their offsets, brokers."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from moldau.client.admin.configs import TOPIC, describe_configs
from moldau.client.admin.topics import Partition, Topic, describe_cluster, describe_topics
from moldau.client.cluster import Cluster
from moldau.services.http.answers import json_answer
from moldau.services.http.application import path_value, principal_of
from moldau.services.http.problems import plain_problem
from moldau.services.http.rights import Kind, Operation
from moldau.services.rest.v2.errors import partition_not_found
from moldau.services.rest.v2.service import V2Service

_LATEST, _EARLIEST = -1, -2
CLUSTER = "kafka"
"""The cluster's name in a file of rights."""


def partition_in(request: Request) -> int:
    """The number of the partition in a path. HttpProblem 404 if it is none."""
    text = path_value(request, "partition")
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise plain_problem(404)
    return int(text)


async def list_topics(service: V2Service, request: Request) -> Response:
    """GET /topics: names, without Kafka's internal topics."""
    found = await service.ask(describe_topics)
    visible = service.rights.filter(principal_of(request), Operation.READ, Kind.TOPIC)
    return json_answer(request, [each.name for each in found if not each.is_internal and visible(each.name)])


async def get_topic(service: V2Service, request: Request) -> Response:
    """GET /topics/{topic}: settings and partitions."""
    name = _topic(service, request)

    def ask(cluster: Cluster) -> tuple[Topic, dict[str, str | None]]:
        topic = describe_topics(cluster, [name])[0]
        configs = sorted(describe_configs(cluster, TOPIC, [name], synonyms=False)[name])
        return topic, {each.name: each.value for each in configs}

    topic, configs = await service.ask(ask)
    partitions = [_partition(each) for each in topic.partitions]
    return json_answer(request, {"name": name, "configs": configs, "partitions": partitions})


async def list_partitions(service: V2Service, request: Request) -> Response:
    """GET /topics/{topic}/partitions"""
    return json_answer(
        request, [_partition(each) for each in (await _described(service, request)).partitions]
    )


async def get_partition(service: V2Service, request: Request) -> Response:
    """GET /topics/{topic}/partitions/{partition}"""
    index = partition_in(request)
    for each in (await _described(service, request)).partitions:
        if each.partition_id == index:
            return json_answer(request, _partition(each))
    raise partition_not_found()


async def get_offsets(service: V2Service, request: Request) -> Response:
    """GET /topics/{topic}/partitions/{partition}/offsets: the first offset, and that after the last."""
    index = partition_in(request)
    topic = await _described(service, request)
    if index not in (each.partition_id for each in topic.partitions):
        raise partition_not_found()
    place = (topic.name, index)

    def ask(cluster: Cluster) -> tuple[int, int]:
        beginning = cluster.offsets({place: _EARLIEST})[place]
        return beginning, cluster.offsets({place: _LATEST})[place]

    beginning, end = await service.ask(ask)
    return json_answer(request, {"beginning_offset": beginning, "end_offset": end})


async def list_brokers(service: V2Service, request: Request) -> Response:
    """GET /brokers: their ids."""
    service.require(request, Operation.READ, Kind.CLUSTER, CLUSTER)
    view = await service.ask(describe_cluster)
    return json_answer(request, {"brokers": [each.broker_id for each in view.brokers]})


def _topic(service: V2Service, request: Request) -> str:
    name = path_value(request, "topic")
    service.require(request, Operation.READ, Kind.TOPIC, name)
    return name


async def _described(service: V2Service, request: Request) -> Topic:
    name = _topic(service, request)
    return (await service.ask(lambda cluster: describe_topics(cluster, [name])))[0]


def _partition(each: Partition) -> dict[str, Any]:
    return {
        "partition": each.partition_id,
        "leader": each.leader,
        "replicas": [
            {"broker": broker, "leader": broker == each.leader, "in_sync": broker in each.in_sync}
            for broker in each.replicas
        ],
    }
