"""The registry's settings, under Confluent's names.

    schema-registry.properties  ->  RegistrySettings, and what is for the Kafka client (`kafkastore.*`)

`kafkastore.security.protocol`, `kafkastore.sasl.*`, `kafkastore.ssl.*` and others go to the client without
the prefix (moldau.client's options). Listeners, login and limits: moldau.services.http.settings.
"""

from collections.abc import Mapping
from typing import NamedTuple

from moldau.common.settings.checks import at_least, between, one_of_any_case
from moldau.common.settings.table import boolean, integer, listing, long, table, text
from moldau.services.http.settings import HttpSettingsPart, settings_from

_STORE = "kafkastore."
_LIST_MAX = 20_000
_OLD_NAMES = {
    "avro.compatibility.level": "schema.compatibility.level",
    "master.eligibility": "leader.eligibility",
}


@table
class RegistrySettings(HttpSettingsPart):
    """The settings of `moldau registry`."""

    moldau_http_body_bytes_max: int = long(
        4 * 1024 * 1024, "The largest body of a request, in bytes, also after decompression.", at_least(1024)
    )
    moldau_registry_schema_bytes_max: int = integer(
        1024 * 1024,
        "The largest text of a schema, in bytes; a larger one is refused before it is parsed (42209). More "
        "needs a larger max.message.bytes of the topic.",
        at_least(1024),
    )
    moldau_registry_ids_resume_from: int = integer(
        0,
        "Where new ids go on in a context whose highest possible id (2147483647) was given: this one, or the "
        "one after the highest that is known. Name one above all that clients may still hold. 0: they end.",
        between(0, 2**31 - 1),
    )
    kafkastore_bootstrap_servers: tuple[str, ...] = listing(
        ("127.0.0.1:9092",), "The brokers: HOST:PORT, several with commas; PROTOCOL:// before is ignored."
    )
    kafkastore_topic: str = text("_schemas", "The topic that keeps all schemas and settings.")
    kafkastore_topic_replication_factor: int = integer(
        3, "The replicas of that topic when it is created; no more than there are brokers.", at_least(1)
    )
    kafkastore_timeout_ms: int = integer(
        30_000, "How long a write may take, in ms. Confluent's default is 500.", at_least(1)
    )
    kafkastore_init_timeout_ms: int = integer(
        60_000, "How long the first contact and the topic's creation may take, in ms.", at_least(1)
    )
    schema_registry_group_id: str = text(
        "schema-registry", "The group in which instances elect the one that writes."
    )
    leader_eligibility: bool = boolean(True, "Whether this instance may be elected to write.")
    host_port: int = integer(0, "The port by which other instances reach this one; 0: the listener's.")
    inter_instance_protocol: str = text(
        "http", "http or https: how instances forward writes.", one_of_any_case("http", "https")
    )
    schema_compatibility_level: str = text(
        "backward",
        "The compatibility level where none is set.",
        one_of_any_case(
            "none",
            "backward",
            "backward_transitive",
            "forward",
            "forward_transitive",
            "full",
            "full_transitive",
        ),
    )
    schema_validate_fields: bool = boolean(
        False, "Whether reserved fields (confluent:reserved) are checked where no setting says so."
    )
    schema_cache_size: int = integer(1_000, "How many schemas are kept parsed.", at_least(1))
    schema_search_default_limit: int = integer(
        1_000, "How many schemas GET /schemas returns if not asked for fewer.", at_least(1)
    )
    schema_search_max_limit: int = integer(1_000, "The most schemas a GET /schemas returns.", at_least(1))
    subject_search_default_limit: int = integer(
        _LIST_MAX, "How many subjects a list has if not asked for fewer.", at_least(1)
    )
    subject_search_max_limit: int = integer(_LIST_MAX, "The most subjects in a list.", at_least(1))
    subject_version_search_default_limit: int = integer(
        _LIST_MAX, "How many versions a list has if not asked for fewer.", at_least(1)
    )
    subject_version_search_max_limit: int = integer(_LIST_MAX, "The most versions in a list.", at_least(1))
    context_search_default_limit: int = integer(
        _LIST_MAX, "How many contexts a list has if not asked for fewer.", at_least(1)
    )
    context_search_max_limit: int = integer(_LIST_MAX, "The most contexts in a list.", at_least(1))
    mode_mutability: bool = boolean(True, "Whether modes may be changed.")
    leader_connect_timeout_ms: int = integer(
        60_000, "How long a forwarded write may take to connect, in ms.", at_least(1)
    )
    leader_read_timeout_ms: int = integer(
        60_000, "How long a forwarded write may take to be answered, in ms.", at_least(1)
    )


class ParsedSettings(NamedTuple):
    """What a file of properties says."""

    settings: RegistrySettings
    client: dict[str, str]
    """The Kafka client's settings, without `kafkastore.`."""
    warnings: list[str]


def parse_registry_settings(texts: Mapping[str, str]) -> ParsedSettings:
    """Settings by Confluent's names. SettingError."""
    texts = {_OLD_NAMES.get(name, name): value for name, value in texts.items()}
    settings, warnings = settings_from(RegistrySettings, texts, families=(_STORE,))
    own = {name for name in RegistrySettings.ROWS if name.startswith(_STORE)}
    client = {
        name.removeprefix(_STORE): value
        for name, value in texts.items()
        if name.startswith(_STORE) and name not in own
    }
    client.pop("group.id", None)  # Confluent's older name of a group that is not used any more
    return ParsedSettings(settings, client, warnings)
