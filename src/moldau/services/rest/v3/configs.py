"""Settings of topics, of a broker, and of all brokers: read, set, reset, changed several at a time.

The three kinds have the same operations; `_Kind` says where they differ. A setting that a resource does not
have is 404, before anything is changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.responses import Response

from moldau.client.admin.configs import (
    ALL_BROKERS,
    BROKER,
    TOPIC,
    Changes,
    Config,
    alter_configs,
    describe_configs,
)
from moldau.client.admin.topics import create_topic, describe_cluster, describe_topics
from moldau.services.http.problems import HttpProblem
from moldau.services.rest.v3 import fields
from moldau.services.rest.v3.call import Call
from moldau.services.rest.v3.errors import http_problem, not_found
from moldau.services.rest.v3.operations import Right, operation
from moldau.services.rest.v3.resources import resource

_TAG = "Configs (v3)"


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of resource that has settings."""

    number: int
    schema: str
    """The name of its setting in the document; with `List` behind, of a list of them."""
    kind: str
    path: str
    """Of all its settings."""
    ids: str
    """In the middle of operation ids."""
    what: str
    right_kind: str
    named_by: str | None

    async def name_of(self, call: Call) -> str:
        """The resource that a path names, as Kafka names it. HttpProblem 404."""
        if self.named_by is None:
            return ALL_BROKERS
        if self.number == TOPIC:
            return call.path[self.named_by]
        wanted = call.number(self.named_by)
        if wanted not in {each.broker_id for each in (await call.ask(describe_cluster)).brokers}:
            raise not_found(f"Broker {wanted} cannot be found in cluster {call.cluster_id}.")
        return str(wanted)


_KINDS = (
    _Kind(
        TOPIC,
        "TopicConfigData",
        "KafkaTopicConfig",
        "/clusters/{cluster_id}/topics/{topic_name}/configs",
        "Topic",
        "a topic",
        "topic",
        "topic_name",
    ),
    _Kind(
        BROKER,
        "BrokerConfigData",
        "KafkaBrokerConfig",
        "/clusters/{cluster_id}/brokers/{broker_id}/configs",
        "Broker",
        "a broker",
        "cluster",
        "broker_id",
    ),
    _Kind(
        BROKER,
        "ClusterConfigData",
        "KafkaClusterConfig",
        "/clusters/{cluster_id}/broker-configs",
        "Cluster",
        "all brokers",
        "cluster",
        None,
    ),
)
_TOPICS, _BROKERS, _CLUSTER = _KINDS


def _register(kind: _Kind) -> None:
    """Register the operations of one kind."""
    named_by = kind.named_by if kind.right_kind == "topic" else None
    see = Right("read", kind.right_kind, named_by)
    change = Right("configure", kind.right_kind, named_by)
    one = kind.path + "/{name}"

    @operation(
        "GET",
        kind.path,
        f"listKafkaV3{kind.ids}Configs",
        f"List the settings of {kind.what}",
        tag=_TAG,
        right=see,
        answers={200: kind.schema + "List"},
    )
    async def list_all(call: Call) -> Response:
        name = await kind.name_of(call)
        found = await _settings(call, kind, name)
        return await _listed(call, kind, [(name, each) for each in found], _url_parts(call, kind, name))

    @operation(
        "GET",
        one,
        f"getKafkaV3{kind.ids}Config",
        f"Read a setting of {kind.what}",
        tag=_TAG,
        right=see,
        answers={200: kind.schema},
    )
    async def get_one(call: Call) -> Response:
        name = await kind.name_of(call)
        (found,) = _existing(call, kind, name, await _settings(call, kind, name), [call.path["name"]])
        return call.answer(_config_data(call, kind, name, found))

    @operation(
        "PUT",
        one,
        f"updateKafkaV3{kind.ids}Config",
        f"Set a setting of {kind.what}",
        tag=_TAG,
        right=change,
        answers={204: None},
        body="UpdateConfigRequestData",
    )
    async def set_one(call: Call) -> Response:
        value = fields.optional_scalar(await call.body(), "value")
        return await _changed(call, kind, {call.path["name"]: (True, value)})

    @operation(
        "DELETE",
        one,
        f"deleteKafkaV3{kind.ids}Config",
        f"Reset a setting of {kind.what} to its default",
        tag=_TAG,
        right=change,
        answers={204: None},
    )
    async def reset_one(call: Call) -> Response:
        return await _changed(call, kind, {call.path["name"]: (False, None)})

    @operation(
        "POST",
        kind.path + ":alter",
        f"updateKafkaV3{kind.ids}ConfigBatch",
        f"Change settings of {kind.what}",
        tag=_TAG,
        right=change,
        answers={204: None},
        body="AlterConfigBatchRequestData",
    )
    async def alter(call: Call) -> Response:
        body = fields.known(await call.body(), ("data", "validate_only"), "The request's body")
        return await _changed(call, kind, _changes(body, "data"), fields.flag(body, "validate_only"))


for _kind in _KINDS:
    _register(_kind)


@operation(
    "GET",
    "/clusters/{cluster_id}/topics/-/configs",
    "listKafkaV3AllTopicConfigs",
    "List the settings of all topics",
    tag=_TAG,
    right=Right("read", "topic"),
    answers={200: "TopicConfigDataList"},
)
async def list_of_all_topics(call: Call) -> Response:
    names = [each.name for each in await call.ask(describe_topics) if call.may("read", "topic", each.name)]
    found = await call.ask(partial(describe_configs, kind=TOPIC, names=names)) if names else {}
    rows = [(name, each) for name in sorted(found) for each in found[name]]
    return await _listed(call, _TOPICS, rows, ("clusters", call.cluster_id, "topics", "-", "configs"))


@operation(
    "GET",
    "/clusters/{cluster_id}/brokers/-/configs",
    "listKafkaV3AllBrokerConfigs",
    "List the settings of every broker",
    tag=_TAG,
    right=Right("read", "cluster"),
    answers={200: "BrokerConfigDataList"},
)
async def list_of_all_brokers(call: Call) -> Response:
    names = [str(each.broker_id) for each in (await call.ask(describe_cluster)).brokers]
    found = await call.ask(partial(describe_configs, kind=BROKER, names=names))
    rows = [(name, each) for name in names for each in found[name]]
    return await _listed(call, _BROKERS, rows, ("clusters", call.cluster_id, "brokers", "-", "configs"))


@operation(
    "GET",
    "/clusters/{cluster_id}/topics/{topic_name}/default-configs",
    "listKafkaV3DefaultTopicConfigs",
    "List the settings that a topic of this name would have if it were created",
    tag=_TAG,
    right=Right("read", "topic", "topic_name"),
    answers={200: "TopicConfigDataList"},
)
async def list_defaults(call: Call) -> Response:
    name = call.path["topic_name"]
    would_be = await call.ask(partial(create_topic, name=name, validate_only=True))
    url = ("clusters", call.cluster_id, "topics", name, "default-configs")
    return await _listed(call, _TOPICS, [(name, each) for each in would_be.configs], url)


@operation(
    "POST",
    "/clusters/{cluster_id}/topics/-/configs:alter",
    "updateKafkaV3MultipleTopicsConfigBatch",
    "Change settings of several topics; 207 tells of those that failed",
    tag=_TAG,
    right=Right("configure", "topic"),
    answers={204: None, 207: "AlterMultipleTopicsConfigsResponse"},
    body="AlterMultipleTopicsConfigBatchRequestData",
)
async def alter_topics(call: Call) -> Response:
    body = fields.known(await call.body(), ("data", "validate_only"), "The request's body")
    changes = {
        fields.text(each, "topic_name"): _changes(each, "configs") for each in fields.objects(body, "data")
    }
    for name in changes:
        call.require("configure", "topic", name)
    for name, change in changes.items():
        _existing(call, _TOPICS, name, await _settings(call, _TOPICS, name), change)
    validate_only = fields.flag(body, "validate_only")
    asked = partial(alter_configs, kind=TOPIC, changes=changes, validate_only=validate_only)
    failed = await call.ask(asked) if changes else {}
    if not failed:
        return call.done()
    problems = {name: http_problem(each) for name, each in failed.items()}
    failures = [
        {"topic_name": name, "error_code": each.error_code, "message": each.message}
        for name, each in problems.items()
    ]
    return call.answer({"failures": failures}, 207)


def _changes(body: Mapping[str, Any], name: str) -> dict[str, tuple[bool, str | None]]:
    changes = {}
    for each in fields.objects(body, name):
        fields.known(each, ("name", "value", "operation"), "A change")
        how = (fields.optional_text(each, "operation") or "SET").upper()
        if how not in ("SET", "DELETE"):
            raise HttpProblem(400, f"operation must be SET or DELETE, and not {fields.shown(how)}.")
        changes[fields.text(each, "name")] = (how == "SET", fields.optional_scalar(each, "value"))
    return changes


async def _settings(call: Call, kind: _Kind, name: str) -> list[Config]:
    found = await call.ask(partial(describe_configs, kind=kind.number, names=[name]))
    return sorted(found.get(name, []))


def _existing(
    call: Call, kind: _Kind, resource_name: str, found: Sequence[Config], names: Mapping[str, Any] | list[str]
) -> list[Config]:
    known = {each.name: each for each in found}
    for name in names:
        if name not in known:
            what = f"{'TOPIC' if kind.number == TOPIC else 'BROKER'} {resource_name}"
            raise not_found(f"Config {name} cannot be found for {what} in cluster {call.cluster_id}.")
    return [known[name] for name in names]


async def _changed(call: Call, kind: _Kind, changes: Changes, validate_only: bool = False) -> Response:
    name = await kind.name_of(call)
    if kind is not _CLUSTER:  # dynamic defaults of all brokers: only those that are set are listed
        _existing(call, kind, name, await _settings(call, kind, name), changes)
    asked = partial(alter_configs, kind=kind.number, changes={name: changes}, validate_only=validate_only)
    for problem in (await call.ask(asked)).values():
        raise http_problem(problem)
    return call.done()


async def _listed(
    call: Call, kind: _Kind, rows: Sequence[tuple[str, Config]], url_parts: tuple[str, ...]
) -> Response:
    url = call.links.url(*url_parts)
    return await call.answer_list(kind.kind + "List", url, rows, lambda row: _config_data(call, kind, *row))


def _url_parts(call: Call, kind: _Kind, name: str) -> tuple[str, ...]:
    if kind is _CLUSTER:
        return ("clusters", call.cluster_id, "broker-configs")
    return ("clusters", call.cluster_id, "topics" if kind is _TOPICS else "brokers", name, "configs")


def _config_data(call: Call, kind: _Kind, name: str, config: Config) -> dict[str, Any]:
    links, cluster_id = call.links, call.cluster_id
    own: dict[str, Any]
    if kind is _CLUSTER:
        crn = links.crn("kafka", cluster_id, "broker-config", config.name)
        own = {"config_type": "BROKER"}
    elif kind is _TOPICS:
        crn = links.crn("kafka", cluster_id, "topic", name, "config", config.name)
        own = {"topic_name": name}
    else:
        crn = links.crn("kafka", cluster_id, "broker", name, "config", config.name)
        own = {"broker_id": int(name)}
    return resource(
        kind.kind,
        links.url(*_url_parts(call, kind, name), config.name),
        crn,
        {
            "cluster_id": cluster_id,
            **own,
            "name": config.name,
            "value": config.value,
            "is_default": config.is_default,
            "is_read_only": config.is_read_only,
            "is_sensitive": config.is_sensitive,
            "source": config.source.name,
            "synonyms": [{**each._asdict(), "source": each.source.name} for each in config.synonyms],
        },
    )
