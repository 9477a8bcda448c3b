"""Settings of topics, of one broker, and of all brokers (whose resource is a broker without a name)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from moldau.client.admin.problem import KafkaProblem, check
from moldau.client.admin.routing import ask_any, ask_broker, require_broker
from moldau.client.cluster import Cluster
from moldau.common.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.common.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

TOPIC, BROKER = 2, 4
_SET, _DELETE = 0, 1
ALL_BROKERS = ""

SOURCES = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
}
"""Where a value comes from, by the protocol's number and Confluent's name."""
_DEFAULT = 5


class Synonym(NamedTuple):
    """Another place that has a value for the setting, in falling order of precedence."""

    name: str
    value: str | None
    source: str


class Config(NamedTuple):
    """A setting; the value of a sensitive one is None."""

    name: str
    value: str | None
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    source: str
    synonyms: tuple[Synonym, ...]


def describe_configs(cluster: Cluster, kind: int, names: Sequence[str]) -> dict[str, list[Config]]:
    """The settings of each resource, by name. Brokers are asked one by one, each for its own."""
    if kind == BROKER and names != [ALL_BROKERS]:
        return {name: _described(cluster, kind, [name], int(name))[name] for name in names}
    return _described(cluster, kind, names, None)


def _described(
    cluster: Cluster, kind: int, names: Sequence[str], broker_id: int | None
) -> dict[str, list[Config]]:
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
            for name in names
        ],
        include_synonyms=True,
    )
    answer = _ask(cluster, broker_id, "read settings", request)
    found = {}
    for result in answer.results:
        check(result.error_code, result.error_message)
        found[result.resource_name] = sorted(_config(each) for each in result.configs)
    return found


def _config(each: Any) -> Config:
    return Config(
        each.name,
        None if each.is_sensitive else each.value,
        each.config_source == _DEFAULT,
        each.read_only,
        each.is_sensitive,
        SOURCES.get(each.config_source, "UNKNOWN"),
        tuple(
            Synonym(
                other.name, None if each.is_sensitive else other.value, SOURCES.get(other.source, "UNKNOWN")
            )
            for other in each.synonyms
        ),
    )


Changes = Mapping[str, tuple[bool, str | None]]
"""Setting -> (whether to set it, and not to reset it; the value)."""


def alter_configs(
    cluster: Cluster, kind: int, changes: Mapping[str, Changes], *, validate_only: bool = False
) -> dict[str, KafkaProblem]:
    """Change settings of resources of one kind; return those that failed, by the resource's name."""
    failed: dict[str, KafkaProblem] = {}
    if kind == BROKER and ALL_BROKERS not in changes:
        parts = [({name: change}, int(name)) for name, change in changes.items()]
    else:
        parts = [(dict(changes), -1)]
    for part, broker_id in parts:
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(resource_type=kind, resource_name=name, configs=_operations(change))
                for name, change in part.items()
            ],
            validate_only=validate_only,
        )
        answer = _ask(cluster, broker_id if broker_id >= 0 else None, "change settings", request)
        for each in answer.responses:
            if each.error_code:
                failed[each.resource_name] = KafkaProblem(each.error_code, each.error_message)
    return failed


def _operations(change: Changes) -> list[AlterableConfig]:
    return [
        AlterableConfig(
            name=name, config_operation=_SET if is_set else _DELETE, value=value if is_set else None
        )
        for name, (is_set, value) in change.items()
    ]


def _ask(cluster: Cluster, broker_id: int | None, wanted: str, request: Any) -> Any:
    if broker_id is None:
        return ask_any(cluster, request, wanted)
    require_broker(cluster, broker_id)
    return ask_broker(cluster, broker_id, request, wanted)
