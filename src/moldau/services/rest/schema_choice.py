"""Which schema a request means for its keys or values, and a coder for it.

    schema_id                          that schema; its subject by the strategy, unless one is named
    schema_version (+ subject)         that version of the subject
    schema (text, with its format)     looked up in the subject, else registered there
    nothing, or only the subject       the newest version of the subject

Without a subject the strategy names it; without a strategy it is TOPIC_NAME. Coders are kept, so that a
request like the one before asks nobody. Errors are those of Confluent's proxy: 42205 a text that is no
schema, 42206 what does not go together, 42207 what the registry refused or does not have, 40301 what it does
not allow.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from moldau.schemas.schema import JsonValue, SchemaText, SchemaType
from moldau.services.http.context import CLIENT_IS_GONE
from moldau.services.http.problems import HttpProblem
from moldau.services.rest.embedded import BadData, Format

if TYPE_CHECKING:
    from moldau.schemas.registry_client import Registered, RegistryClient
    from moldau.schemas.serde.records import RecordReader, RecordWriter

ResultT = TypeVar("ResultT")

INVALID_SCHEMA = 42205
INVALID_PAYLOAD = 42206
SCHEMA_NOT_USABLE = 42207
NOT_ALLOWED = 40301
_CODERS_KEPT = 1_000
_THREADS = 8
_WAITING_MAX = 1_000


class SchemaChoice(NamedTuple):
    """What a request says about its schema; without `format`, it is that of the schema."""

    format: Format | None = None
    subject: str | None = None
    strategy: str | None = None
    schema_id: int | None = None
    schema_version: int | None = None
    schema: str | None = None


class SchemaCoder(NamedTuple):
    """A schema that was found, and how to write with it."""

    subject: str
    schema_id: int
    version: int
    schema_type: SchemaType
    writer: RecordWriter

    def write(self, value: JsonValue) -> bytes | None:
        """The bytes of a key or value; None for null. BadData. Work for a thread."""
        from moldau.schemas.serde import SerdeError

        if value is None:
            return None
        try:
            return self.writer.write(value)
        except SerdeError as problem:
            raise BadData(str(problem)) from None


class Schemas:
    """The registry as the proxy uses it; for one event loop."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """`settings` are `schema.registry.*`; empty: there is no registry. RegistryError: they are wrong."""
        self._client: RegistryClient | None = None
        self._reader: RecordReader | None = None
        if settings:
            from moldau.schemas.registry_client import RegistryClient

            self._client = RegistryClient(settings)
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="rest-schemas")
        self._under_way = 0
        self._stopped = Event()
        self._coders: OrderedDict[tuple[str, bool, SchemaChoice], SchemaCoder] = OrderedDict()

    async def coder(
        self,
        topic: str,
        is_key: bool,
        choice: SchemaChoice,
        may_write: Callable[[str], bool] = lambda subject: True,
    ) -> SchemaCoder:
        """The coder for a topic's keys or values. HttpProblem.

        `may_write`: whether the caller may register schemas in a subject. The topic's own are not asked for.
        """
        found = self._coders.get((topic, is_key, choice))
        if found is None:
            found = await self.in_thread(self._find, topic, is_key, choice, may_write)
            if choice.schema_id is not None or choice.schema_version is not None or choice.schema is not None:
                self._coders[topic, is_key, choice] = found
                while len(self._coders) > _CODERS_KEPT:
                    self._coders.popitem(last=False)
        else:
            self._coders.move_to_end((topic, is_key, choice))
        return found

    @property
    def reader(self) -> RecordReader:
        """Decodes keys and values by the schemas that they name. HttpProblem without a registry."""
        if self._reader is None:
            from moldau.schemas.serde.records import RecordReader

            self._reader = RecordReader(self._registry().by_id_or_guid)
        return self._reader

    async def in_thread(self, work: Callable[..., ResultT], *arguments: object) -> ResultT:
        """Run work by schemas in a thread; HttpProblem 429 if too much of it waits. It ends with its request:
        ConnectionResetError if the client has left.
        """
        if self._under_way >= _THREADS + _WAITING_MAX:
            raise HttpProblem(42901, "Too many requests wait for the schema registry.")
        self._under_way += 1
        try:
            gone, stopped = CLIENT_IS_GONE.get(), self._stopped

            def is_abandoned() -> bool:
                return stopped.is_set() or gone()

            return await asyncio.get_running_loop().run_in_executor(
                self._pool, _for_client, is_abandoned, work, *arguments
            )
        finally:
            self._under_way -= 1

    def close(self) -> None:
        """End the threads, whose work on schemas ends at its next step, and close the connections."""
        self._stopped.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._client is not None:
            self._client.close()

    def _registry(self) -> RegistryClient:
        if self._client is None:
            raise HttpProblem(
                INVALID_PAYLOAD,
                "Payload error. Schema Registry must be configured when using schemas (schema.registry.url).",
            )
        return self._client

    def _find(
        self, topic: str, is_key: bool, choice: SchemaChoice, may_write: Callable[[str], bool]
    ) -> SchemaCoder:
        from moldau.schemas.registry_client import RegistryError
        from moldau.schemas.serde import SerdeError
        from moldau.schemas.serde.records import RecordWriter
        from moldau.schemas.subjects import SubjectError

        _check(choice)
        try:
            subject, found = self._registered(topic, is_key, choice, may_write)
            if choice.format is not None and choice.format.schema_type is not found.parsed.schema_type:
                raise HttpProblem(
                    INVALID_PAYLOAD,
                    f"Payload error. The schema is of type {found.parsed.schema_type}, and not "
                    f"{choice.format.schema_type}.",
                )
            writer = RecordWriter(found.id, found.parsed)
        except RegistryError as refused:
            allowed = refused.error_code not in (403, NOT_ALLOWED)
            code = SCHEMA_NOT_USABLE if allowed else NOT_ALLOWED
            raise HttpProblem(code, f"{_attempt(choice)}: {refused}") from None
        except SubjectError as unnamed:
            raise HttpProblem(INVALID_PAYLOAD, f"Payload error. {_sentence(str(unnamed))}") from None
        except SerdeError as unusable:
            raise HttpProblem(INVALID_SCHEMA, f"Invalid schema: {unusable}") from None
        return SchemaCoder(subject, found.id, found.version, found.parsed.schema_type, writer)

    def _registered(
        self, topic: str, is_key: bool, choice: SchemaChoice, may_write: Callable[[str], bool]
    ) -> tuple[str, Registered]:
        from moldau.schemas.registry_client import Registered, RegistryError

        registry = self._registry()
        if choice.schema_id is not None:
            parsed = registry.by_id(choice.schema_id)
            subject = self._subject(topic, is_key, choice, parsed.name)
            source = SchemaText(parsed.schema_type, parsed.canonical, parsed.references)
            try:
                version = registry.lookup(subject, source).version
            except RegistryError as problem:
                if not problem.is_not_found:
                    raise
                raise RegistryError(
                    f"schema {choice.schema_id} is not registered in subject {subject}", problem.error_code
                ) from None
            return subject, Registered(choice.schema_id, version, parsed, subject)
        if choice.schema is not None:
            assert choice.format is not None
            assert choice.format.schema_type is not None
            source = SchemaText(choice.format.schema_type, choice.schema)
            subject = self._subject(topic, is_key, choice, self._name(source, choice))
            try:
                return subject, registry.lookup(subject, source)
            except RegistryError:
                if subject != self._subject(topic, is_key, SchemaChoice(), None) and not may_write(subject):
                    raise HttpProblem(
                        NOT_ALLOWED, f"It is not allowed to register schemas in subject {subject}."
                    ) from None
                return subject, registry.register(subject, source)
        subject = self._subject(topic, is_key, choice, None)
        if choice.schema_version is not None:
            return subject, registry.version(subject, choice.schema_version)
        return subject, registry.latest(subject)

    def _name(self, source: SchemaText, choice: SchemaChoice) -> str | None:
        """The record's name. HttpProblem 42205 if the text is no schema."""
        from moldau.schemas.languages import parse
        from moldau.schemas.schema import InvalidSchema

        try:
            return parse(source, {}).name
        except InvalidSchema as problem:
            raise HttpProblem(INVALID_SCHEMA, f"Invalid schema: {problem}") from None

    def _subject(self, topic: str, is_key: bool, choice: SchemaChoice, name: str | None) -> str:
        from moldau.schemas.subjects import subject_name

        if choice.subject is not None:
            return choice.subject
        return subject_name(choice.strategy or "TOPIC_NAME", topic, is_key, name)


def _for_client(
    is_abandoned: Callable[[], bool], work: Callable[..., ResultT], *arguments: object
) -> ResultT:
    from moldau.schemas.effort import Abandoned, Work, working
    from moldau.schemas.serde.json_schema import Checking

    if is_abandoned():
        raise ConnectionResetError("the client has gone")
    try:
        with Checking(is_abandoned), working(Work(is_abandoned)):
            return work(*arguments)
    except Abandoned:
        raise ConnectionResetError("the client has gone") from None


def _check(choice: SchemaChoice) -> None:
    """HttpProblem if the request names more than one schema."""
    named = [
        name
        for name, value in (
            ("schema_id", choice.schema_id),
            ("schema_version", choice.schema_version),
            ("schema", choice.schema),
        )
        if value is not None
    ]
    if len(named) > 1:
        raise HttpProblem(INVALID_PAYLOAD, f"Payload error. Only one of {' and '.join(named)} can be used.")
    if choice.subject is not None and choice.strategy is not None:
        raise HttpProblem(
            INVALID_PAYLOAD, "Payload error. Only one of subject and subject_name_strategy can be used."
        )
    if choice.schema is not None and (choice.format is None or choice.format.schema_type is None):
        raise HttpProblem(INVALID_PAYLOAD, "Payload error. A schema needs type AVRO, JSONSCHEMA or PROTOBUF.")


def _attempt(choice: SchemaChoice) -> str:
    if choice.schema_id is not None:
        return f"Error when fetching schema by id. schemaId = {choice.schema_id}"
    if choice.schema_version is not None:
        return f"Error when fetching schema by version. version = {choice.schema_version}"
    if choice.schema is not None:
        return "Error when registering schema"
    return "Error when fetching latest schema version"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
