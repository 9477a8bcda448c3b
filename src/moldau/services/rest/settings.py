"""Settings of the REST proxy, by the names of Confluent's kafka-rest.properties.

    bootstrap.servers, consumer.request.timeout.ms, ...    rows of the table below
    client.NAME                                            NAME, for every client of Kafka that the proxy has
    producer.NAME, consumer.NAME, admin.NAME               NAME, for one kind of them; wins over client.NAME
    schema.registry.NAME                                   the client of the schema registry

Rows whose names begin with `consumer.` are the proxy's own and no setting of a consumer.
"""

from collections.abc import Mapping
from enum import StrEnum

from moldau.common.settings.checks import at_least, between
from moldau.common.settings.table import boolean, integer, listing, long, table, text
from moldau.services.http.settings import HttpSettingsPart, settings_from

DEFAULT_PORT = 8082
_MIB = 1024 * 1024


class Role(StrEnum):
    """A kind of Kafka client, by the prefix of its settings."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    ADMIN = "admin"


FAMILIES = ("client.", "schema.registry.", *(f"{role}." for role in Role))
"""Prefixes of settings that are somebody else's."""


@table
class RestSettings(HttpSettingsPart):
    """The settings of the proxy itself, and of its listeners."""

    bootstrap_servers: str = text("localhost:9092", "The brokers: HOST:PORT, several with commas.")
    id: str = text(
        "", "Names this proxy in the ids of consumer instances; for several proxies behind one address."
    )
    advertised_listeners: tuple[str, ...] = listing(
        (), "The addresses by which clients reach the proxy, for URLs in responses. Unset: the Host header."
    )
    api_v2_enable: bool = boolean(True, "Whether version 2 of the API is served.")
    api_v3_enable: bool = boolean(True, "Whether version 3 of the API is served.")
    api_endpoints_allowlist: tuple[str, ...] = listing(
        (), "Only these operations are served, such as api.v3.topics.* or api.v2.topics.list. Empty: all."
    )
    api_endpoints_blocklist: tuple[str, ...] = listing(
        (), "Operations that are not served, such as api.v3.acls.* or api.v3.topics.delete."
    )
    api_v3_produce_rate_limit_enabled: bool = boolean(
        False, "Whether the records that are written in version 3 are limited to a number a second."
    )
    api_v3_produce_rate_limit_max_bytes_per_sec: int = long(
        10_000_000, "The most bytes of such records a second; what is more has the error 429.", at_least(1)
    )
    api_v3_produce_rate_limit_max_bytes_global_per_sec: int = long(
        10_000_000, "The same for all clusters together; as there is one, the smaller holds.", at_least(1)
    )
    api_v3_produce_rate_limit_max_requests_per_sec: int = integer(
        10_000, "The most such records a second; what is more has the error 429.", at_least(1)
    )
    api_v3_produce_rate_limit_max_requests_global_per_sec: int = integer(
        10_000, "The same for all clusters together; as there is one, the smaller holds.", at_least(1)
    )
    confluent_resource_name_authority: str = text(
        "", "The authority in the names of v3's resources: crn://AUTHORITY/kafka=..."
    )
    consumer_request_timeout_ms: int = integer(
        1_000, "How long a read of a consumer instance waits for records, at most.", at_least(0)
    )
    consumer_request_max_bytes: int = long(
        64 * _MIB, "The most bytes of keys and values in one response to a consumer instance.", at_least(1)
    )
    consumer_instance_timeout_ms: int = integer(
        300_000, "A consumer instance that is not used for so long is removed.", at_least(1)
    )
    consumer_iterator_backoff_ms: int = integer(
        50, "A read ends when no record has come for so long after the last.", at_least(1)
    )
    consumer_threads: int = integer(
        50,
        "Threads for calls of consumer instances that may block; -1: as many as there are instances.",
        at_least(-1),
    )
    fetch_min_bytes: int = integer(
        -1,
        "A read waits for so many bytes, or the timeout; -1: for records, until no more come.",
        between(-1, 10_000_000),
    )
    rate_limit_enable: bool = boolean(
        False, "Whether requests have a number of permits a second; not those that write in version 3."
    )
    rate_limit_permits_per_sec: int = integer(50, "The permits a second.", at_least(1))
    rate_limit_timeout_ms: int = long(
        0, "How long a request waits for its permits, before it is refused with 429.", at_least(0)
    )
    rate_limit_default_cost: int = integer(1, "The permits that a request costs.", at_least(0))
    rate_limit_costs: tuple[str, ...] = listing(
        (), "The cost of some operations, such as api.v3.clusters.*=1,api.v3.brokers.list=2; 0: no limit."
    )
    streaming_connection_max_duration_ms: int = long(
        86_400_000, "How long a stream of records may last; then it ends with an answer 408.", at_least(1)
    )
    moldau_rest_consumer_instances_max: int = integer(
        500, "The most consumer instances at a time; a further one is refused with 429.", at_least(1)
    )
    moldau_rest_consumer_prefetch_bytes_max: int = long(
        256 * _MIB,
        "The most bytes that all consumer instances together fetch ahead; each has a share, larger while "
        "there are few.",
        at_least(1024),
    )
    moldau_rest_readers_max: int = integer(
        100,
        "The most reads without a session, live tails too, at a time; 429 for a further one.",
        between(1, 1_000),
    )
    moldau_rest_producing_bytes_max: int = long(
        64 * _MIB,
        "The most bytes of records that are on their way to Kafka, of all requests; further requests wait.",
        at_least(1024),
    )
    moldau_rest_responses_bytes_max: int = long(
        256 * _MIB,
        "The most bytes of records in responses that are not read yet; at the limit, reads return less.",
        at_least(1024),
    )


class RestConfiguration:
    """The settings of the table, and those of the clients that the proxy has."""

    def __init__(self, settings: RestSettings, texts: Mapping[str, str]) -> None:
        self.settings = settings
        self._texts = texts

    def client(self, role: Role) -> dict[str, str]:
        """The settings of a Kafka client, as the file spells them, without the prefix."""
        found: dict[str, str] = {}
        for prefix in ("client.", f"{role}."):
            for name, value in self._texts.items():
                if name.startswith(prefix) and name not in RestSettings.ROWS:
                    found[name.removeprefix(prefix)] = value
        found["bootstrap.servers"] = self.settings.bootstrap_servers
        return found

    def registry(self) -> dict[str, str]:
        """The settings of the registry's client; empty if no registry is named."""
        found = {name: value for name, value in self._texts.items() if name.startswith("schema.registry.")}
        return found if found.get("schema.registry.url") else {}


def rest_configuration(texts: Mapping[str, str]) -> tuple[RestConfiguration, list[str]]:
    """The proxy's settings from texts by name, and a warning for each that is not known. SettingError."""
    settings, warnings = settings_from(RestSettings, texts, families=FAMILIES)
    return RestConfiguration(settings, dict(texts)), warnings
