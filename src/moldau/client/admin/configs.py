"""Configurations of topics, brokers and other resources; the default of all brokers has an empty name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
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

TOPIC, BROKER, LOGGER = 2, 4, 8
_SET, _DELETE = 0, 1
_RESOURCES_AT_ONCE = 500
ALL_BROKERS = ""


class Source(IntEnum):
    """Where a value comes from, by the protocol's number and Kafka's name."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8

    @classmethod
    def _missing_(cls, value: object) -> Source:
        return cls.UNKNOWN  # of a newer broker


class Synonym(NamedTuple):
    """Another place that has a value for the setting, in falling order of precedence."""

    name: str
    value: str | None
    source: Source


class Config(NamedTuple):
    """A setting; the value of a sensitive one is None."""

    name: str
    value: str | None
    is_read_only: bool
    is_sensitive: bool
    source: Source
    synonyms: tuple[Synonym, ...] = ()

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it."""
        return self.source == Source.DEFAULT_CONFIG


def describe_configs(
    cluster: Cluster,
    kind: int,
    names: Sequence[str],
    *,
    synonyms: bool = True,
    keys: Sequence[str] | None = None,
) -> dict[str, list[Config]]:
    """The settings (None: all) of each resource, by its name, in the broker's order. Brokers are asked one by
    one, each for its own.
    """
    found = {}
    for part, broker_id in _parts(kind, names):
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=kind,
                    resource_name=name,
                    configuration_keys=None if keys is None else list(keys),
                )
                for name in part
            ],
            include_synonyms=synonyms,
        )
        for result in _ask(cluster, broker_id, request, "read settings").results:
            check(result.error_code, result.error_message)
            found[result.resource_name] = [config_of(each) for each in result.configs]
    return found


def config_of(each: Any) -> Config:
    """A setting as DescribeConfigs and CreateTopics (without synonyms) answer it."""
    return Config(
        each.name,
        None if each.is_sensitive else each.value,
        each.read_only,
        each.is_sensitive,
        Source(each.config_source),
        tuple(
            Synonym(other.name, None if each.is_sensitive else other.value, Source(other.source))
            for other in getattr(each, "synonyms", ())
        ),
    )


Changes = Mapping[str, tuple[bool, str | None]]
"""Setting -> (whether to set it, and not to reset it; the value)."""


def alter_configs(
    cluster: Cluster, kind: int, changes: Mapping[str, Changes], *, validate_only: bool = False
) -> dict[str, KafkaProblem]:
    """Change settings of resources of one kind; return those that failed, by the resource's name."""
    failed: dict[str, KafkaProblem] = {}
    for part, broker_id in _parts(kind, list(changes)):
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=kind, resource_name=name, configs=_operations(changes[name])
                )
                for name in part
            ],
            validate_only=validate_only,
        )
        for each in _ask(cluster, broker_id, request, "change settings").responses:
            if each.error_code:
                failed[each.resource_name] = KafkaProblem(each.error_code, each.error_message)
    return failed


def _parts(kind: int, names: Sequence[str]) -> list[tuple[Sequence[str], int | None]]:
    """What goes into a request each, and to which broker (None: any)."""
    if kind in (BROKER, LOGGER) and ALL_BROKERS not in names:
        return [([name], int(name)) for name in names]
    starts = range(0, len(names), _RESOURCES_AT_ONCE)
    return [(names[start : start + _RESOURCES_AT_ONCE], None) for start in starts]


def _operations(change: Changes) -> list[AlterableConfig]:
    return [
        AlterableConfig(
            name=name, config_operation=_SET if is_set else _DELETE, value=value if is_set else None
        )
        for name, (is_set, value) in change.items()
    ]


def _ask(cluster: Cluster, broker_id: int | None, request: Any, wanted: str) -> Any:
    if broker_id is None:
        return ask_any(cluster, request, wanted)
    require_broker(cluster, broker_id)
    return ask_broker(cluster, broker_id, request, wanted)
