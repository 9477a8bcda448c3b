"""Cluster-wide default settings: DescribeConfigs and IncrementalAlterConfigs of the broker with the empty
name.

librdkafka refuses an empty resource name, so both requests are sent with our own codec
(shared/raw_request.py). The result has the shape of confluent-kafka's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING

from moldau.common.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from moldau.common.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from moldau.tools.shared.errors import CommandError
from moldau.tools.shared.raw_request import error_words

if TYPE_CHECKING:
    from moldau.tools.shared.connection import Connection

BROKER = 4
DEFAULT_SOURCE = 5
SET, DELETE = 0, 1
DESCRIBE_VERSION = 1
ALTER_VERSION = 0


def describe_default(connection: Connection) -> dict[str, SimpleNamespace]:
    """Return the cluster-wide defaults: name of the setting -> entry."""
    resource = DescribeConfigsResource(resource_type=BROKER, resource_name="", configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    (result,) = connection.ask(connection.addresses[0], request, DESCRIBE_VERSION).results
    _require(result.error_code, result.error_message)
    return {
        each.name: SimpleNamespace(
            name=each.name,
            value=each.value,
            source=each.config_source,
            is_default=each.config_source == DEFAULT_SOURCE,
            is_read_only=each.read_only,
            is_sensitive=each.is_sensitive,
            synonyms={synonym.name: synonym for synonym in each.synonyms},
        )
        for each in result.configs
    }


def alter_default(connection: Connection, set_: Mapping[str, str], unset: Iterable[str]) -> None:
    """Set and unset cluster-wide defaults. Raises CommandError if the broker refuses them."""
    changes = [
        *(AlterableConfig(name=name, config_operation=SET, value=value) for name, value in set_.items()),
        *(AlterableConfig(name=name, config_operation=DELETE, value=None) for name in unset),
    ]
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=BROKER, resource_name="", configs=changes)]
    )
    (result,) = connection.ask(connection.addresses[0], request, ALTER_VERSION).responses
    _require(result.error_code, result.error_message)


def _require(error_code: int, message: str | None) -> None:
    if error_code:
        words = error_words(error_code)
        raise CommandError(f"default: {message} ({words.rpartition('(')[2]}" if message else words)
