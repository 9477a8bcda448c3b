"""The options of records that are written with a schema of a registry (Avro, JSON Schema, Protobuf).

    value.format   value.schema   value.subject ...     key.format   key.schema   key.subject ...
    schema.registry.url   basic.auth.user.info ...      as Confluent's serializers name them

Rows for the option tables of reading and writing, and the check of what is given. Which schema that is comes
from the registry, once a query, on the driver: pinned_schemas.py.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from moldau.schemas.schema import SchemaType
from moldau.schemas.subjects import Strategy, SubjectError, strategy_of, subject_name
from pyspark_moldau.errors import OptionError
from pyspark_moldau.option_rows import BOTH, Row

if TYPE_CHECKING:
    from pyspark_moldau.pinned_schemas import PinnedSchema

BINARY, LATEST_SCHEMA, REGISTER = "binary", "latest", "register"
SCHEMA_TYPES: Mapping[str, SchemaType] = {
    "avro": SchemaType.AVRO,
    "json-schema": SchemaType.JSON,
    "protobuf": SchemaType.PROTOBUF,
}
FORMATS = (BINARY, *SCHEMA_TYPES)
KEY, VALUE = "key", "value"
NULL, DROP, FAIL = "null", "drop", "fail"
PACKAGES = ("jsonschema", "orjson")
INSTALL = "pip install 'moldau[schemas]'"
REGISTRY_URL = "schema.registry.url"
REGISTRY_PREFIXES = ("schema.registry.", "basic.auth.", "bearer.auth.")

_REGISTRY_ROWS = (
    Row(REGISTRY_URL, "", BOTH, "Where the schema registry is: http://host:8081, several with commas."),
    Row(
        "schema.registry.*, basic.auth.*, bearer.auth.*",
        "",
        BOTH,
        "Login and TLS of the registry, as Confluent's clients name them: basic.auth.user.info, "
        "bearer.auth.token, schema.registry.ssl.ca.location ...",
    ),
)
_WHERE = (
    ("subject", "by the strategy", "The subject that has the {side}s' schema."),
    (
        "subject.name.strategy",
        "topic",
        "How the subject is named: topic (`orders-{side}`), record or topic-record; Confluent's class names "
        "mean the same.",
    ),
)


def _read_rows(side: str) -> tuple[Row, ...]:
    return (
        Row(
            f"{side}.format",
            BINARY,
            BOTH,
            f"binary: the bytes. avro, json-schema, protobuf: the column `{side}` has the fields of the "
            "registry's schema; records written with other versions of it are read as this one's.",
        ),
        Row(
            f"{side}.schema",
            LATEST_SCHEMA,
            BOTH,
            "The schema to read with: latest (at the start of the query), or a version of the subject.",
        ),
        Row(f"{side}.schema.id", "", BOTH, "The same by its id."),
        *(Row(f"{side}.{name}", default, BOTH, text.format(side=side)) for name, default, text in _WHERE),
        Row(
            f"{side}.record.name",
            "",
            BOTH,
            "The full name of the record or message, for the strategies record and topic-record.",
        ),
    )


def _write_rows(side: str) -> tuple[Row, ...]:
    return (
        Row(
            f"{side}.format",
            BINARY,
            BOTH,
            f"binary: the bytes. avro, json-schema, protobuf: the column `{side}` is a struct, which is "
            "written with a schema of the registry.",
        ),
        Row(
            f"{side}.schema",
            REGISTER,
            BOTH,
            "The schema to write with: register (the one of the struct, which is registered), latest, or a "
            "version of the subject.",
        ),
        Row(f"{side}.schema.id", "", BOTH, "The same by its id."),
        *(Row(f"{side}.{name}", default, BOTH, text.format(side=side)) for name, default, text in _WHERE),
        Row(
            f"{side}.record.name",
            "from the topic",
            BOTH,
            "The full name of the record or message in a schema that is registered: `shop.Order`.",
        ),
    )


_PINNED = Row(
    "value.schema.pinned, key.schema.pinned",
    "",
    BOTH,
    "The schema itself, as `PinnedSchema.as_option()` writes it: the registry is not asked for it.",
)
READ_ROWS = (
    *_REGISTRY_ROWS,
    *_read_rows(VALUE),
    *_read_rows(KEY),
    _PINNED,
    Row(
        "badRecords",
        FAIL,
        BOTH,
        "What is done with a record that cannot be decoded: fail, drop, or null (its columns are null).",
    ),
    Row(
        "includeUndecoded",
        "false",
        BOTH,
        "Instead of badRecords: add the columns `undecodedKey`, `undecodedValue` (bytes) and "
        "`undecodedReason`, which are null for records that can be decoded.",
    ),
)
WRITE_ROWS = (*_REGISTRY_ROWS, *_write_rows(VALUE), *_write_rows(KEY), _PINNED)


@dataclass(frozen=True)
class SchemaChoice:
    """How keys or values are coded, and how their schema is found."""

    side: str
    format: str
    schema: str
    """latest, register, or a version as text."""
    schema_id: int | None = None
    subject: str | None = None
    strategy: Strategy = Strategy.TOPIC
    record_name: str | None = None
    pinned: PinnedSchema | None = None

    @property
    def schema_type(self) -> SchemaType:
        """The language."""
        return SCHEMA_TYPES[self.format]

    def subject_of(self, topic: str | None, record_name: str | None) -> str:
        """The subject for a topic. OptionError if it cannot be named."""
        if self.subject is not None:
            return self.subject
        if topic is None and self.strategy is not Strategy.RECORD:
            raise OptionError(
                f"whose {self.side} schema? There is more than one topic: give {self.side}.subject"
            )
        try:
            return subject_name(self.strategy, topic or "", self.side == KEY, record_name)
        except SubjectError as failure:
            raise OptionError(f"{self.side}.subject.name.strategy: {failure}") from None


@dataclass(frozen=True)
class RecordFormats:
    """How a query's keys and values are coded; None: bytes."""

    key: SchemaChoice | None = None
    value: SchemaChoice | None = None
    registry: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The settings of the registry's client, with its passwords."""
    bad_records: str = FAIL
    include_undecoded: bool = False

    @property
    def has_schemas(self) -> bool:
        """Whether keys or values have a schema; a header of their records may name it."""
        return bool(self.choices)

    @property
    def choices(self) -> tuple[SchemaChoice, ...]:
        """Those of the two that have a schema."""
        return tuple(each for each in (self.key, self.value) if each is not None)

    def pinned(self, pins: Mapping[str, PinnedSchema]) -> RecordFormats:
        """The same with these schemas, by side."""
        return replace(
            self,
            key=self.key and replace(self.key, pinned=pins.get(KEY, self.key.pinned)),
            value=self.value and replace(self.value, pinned=pins.get(VALUE, self.value.pinned)),
        )


def is_registry_option(name: str) -> bool:
    """Whether an option (in small letters) is a setting of the registry's client."""
    return name.startswith(REGISTRY_PREFIXES)


def is_pinned_option(name: str) -> bool:
    """Whether an option (in small letters) gives a schema itself."""
    return name in (f"{KEY}.schema.pinned", f"{VALUE}.schema.pinned")


def parse_formats(texts: Mapping[str, str], *, writing: bool) -> RecordFormats:
    """Check the options of formats and schemas; names in small letters. OptionError for the first error."""
    registry = {name: value for name, value in texts.items() if is_registry_option(name)}
    bad_records = texts.get("badrecords", FAIL).lower()
    if bad_records not in (NULL, DROP, FAIL):
        raise OptionError(f"badRecords must be {FAIL}, {DROP} or {NULL}, not {bad_records!r}")
    undecoded = texts.get("includeundecoded", "false").lower()
    if undecoded not in ("true", "false"):
        raise OptionError(f"includeUndecoded must be true or false, not {undecoded!r}")
    formats = RecordFormats(
        _choice(texts, KEY, writing=writing),
        _choice(texts, VALUE, writing=writing),
        registry,
        bad_records,
        undecoded == "true",
    )
    if undecoded == "true" and not formats.choices:
        raise OptionError("includeUndecoded has a meaning with value.format or key.format only")
    for each in formats.choices:
        _require_packages(f"{each.side}.format={each.format}")
        if not registry.get(REGISTRY_URL) and each.pinned is None:
            raise OptionError(
                f"{each.side}.format={each.format} needs the option {REGISTRY_URL}: http://host:8081 of a "
                "schema registry (`moldau registry` starts one)"
            )
    return formats


def _require_packages(what: str) -> None:
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise OptionError(f"{what} needs packages that are not installed ({missing[0]}): {INSTALL}")


def _choice(texts: Mapping[str, str], side: str, *, writing: bool) -> SchemaChoice | None:
    given = {
        name.removeprefix(f"{side}."): text for name, text in texts.items() if name.startswith(f"{side}.")
    }
    form = given.pop("format", BINARY).lower()
    if form not in FORMATS:
        raise OptionError(f"{side}.format may be {', '.join(FORMATS)}, not {form!r}")
    if form == BINARY:
        if given:
            raise OptionError(f"{side}.{min(given)} has a meaning with {side}.format=avro and the like only")
        return None
    default = REGISTER if writing else LATEST_SCHEMA
    schema = given.get("schema", default).lower()
    if schema not in {LATEST_SCHEMA, default} and not (schema.isdigit() and int(schema)):
        words = f"{REGISTER}, {LATEST_SCHEMA}" if writing else LATEST_SCHEMA
        raise OptionError(f"{side}.schema must be {words} or the number of a version, not {schema!r}")
    schema_id = given.get("schema.id")
    if schema_id is not None and not schema_id.isdigit():
        raise OptionError(f"{side}.schema.id must be a whole number, not {schema_id!r}")
    try:
        strategy = strategy_of(given.get("subject.name.strategy", Strategy.TOPIC))
    except SubjectError as failure:
        raise OptionError(f"{side}.subject.name.strategy: {failure}") from None
    return SchemaChoice(
        side,
        form,
        schema,
        None if schema_id is None else int(schema_id),
        given.get("subject") or None,
        strategy,
        given.get("record.name") or None,
        _pinned(given, side),
    )


def _pinned(given: Mapping[str, str], side: str) -> PinnedSchema | None:
    text = given.get("schema.pinned")
    if not text:
        return None
    from pyspark_moldau.pinned_schemas import PinnedSchema

    try:
        return PinnedSchema.from_option(text)
    except (ValueError, KeyError, TypeError):
        raise OptionError(f"{side}.schema.pinned is not what PinnedSchema.as_option() writes") from None
