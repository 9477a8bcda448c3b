"""Settings of the converters that use a schema registry; names and defaults are Confluent's."""

from __future__ import annotations

from typing import Any

from moldau.connect.settings import REQUIRED, Importance, Setting, SettingType
from moldau.schemas.subjects import SubjectError, strategy_of

BOOLEAN, STRING, INT = SettingType.BOOLEAN, SettingType.STRING, SettingType.INT
HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def _strategy_error(value: Any) -> str | None:
    try:
        strategy_of(str(value))
    except SubjectError as error:
        return str(error)
    return None


def _strategy(side: str) -> Setting:
    return Setting(
        f"{side}.subject.name.strategy",
        STRING,
        f"How the subject of {side}s is named: topic, record or topic-record, or Confluent's class of it.",
        "io.confluent.kafka.serializers.subject.TopicNameStrategy",
        MEDIUM,
        check=_strategy_error,
    )


COMMON = (
    Setting(
        "schema.registry.url",
        SettingType.LIST,
        "Addresses of the schema registry, separated by commas.",
        REQUIRED,
        HIGH,
    ),
    Setting("auto.register.schemas", BOOLEAN, "Register the schema of what is written.", True, MEDIUM),
    Setting(
        "use.latest.version",
        BOOLEAN,
        "Write with the newest version of the subject instead (auto.register.schemas must be false).",
        False,
        LOW,
    ),
    Setting("normalize.schemas", BOOLEAN, "Register schemas in their normal form.", False, MEDIUM),
    _strategy("key"),
    _strategy("value"),
    Setting("schemas.cache.config", INT, "How many schemas are remembered.", 1000, LOW),
    Setting(
        "basic.auth.credentials.source",
        STRING,
        "Where the login is: URL, USER_INFO (basic.auth.user.info) or SASL_INHERIT.",
        "URL",
        MEDIUM,
    ),
    Setting(
        "basic.auth.user.info",
        SettingType.PASSWORD,
        "The login at the registry, user:password.",
        None,
        MEDIUM,
    ),
    Setting("bearer.auth.credentials.source", STRING, "Where a bearer token comes from.", None, MEDIUM),
    Setting("bearer.auth.token", SettingType.PASSWORD, "A bearer token.", None, MEDIUM),
    Setting("schema.registry.ssl.truststore.location", STRING, "Certificates that are trusted.", None, LOW),
    Setting("schema.registry.ssl.keystore.location", STRING, "The certificate of this client.", None, LOW),
    Setting("schema.registry.ssl.key.password", SettingType.PASSWORD, "The password of its key.", None, LOW),
    Setting(
        "latest.compatibility.strict",
        BOOLEAN,
        "Confluent: refuse a newest version that is not compatible.",
        True,
        LOW,
        without_effect="rows that do not fit the newest version are refused one by one",
    ),
)
AVRO = (
    *COMMON,
    Setting(
        "enhanced.avro.schema.support",
        BOOLEAN,
        "Write what was read as an enum as an enum again.",
        False,
        MEDIUM,
    ),
    Setting(
        "connect.meta.data",
        BOOLEAN,
        "Keep names, versions and parameters of Connect's schemas in Avro's.",
        True,
        LOW,
    ),
    Setting(
        "scrub.invalid.names",
        BOOLEAN,
        "Replace in names what Avro does not allow by _.",
        False,
        MEDIUM,
    ),
)
JSON_SCHEMA = COMMON
PROTOBUF = COMMON
