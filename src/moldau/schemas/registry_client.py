"""A schema registry as its clients see it: schemas by id, GUID, subject and version; registering, look-up.

Stands on confluent-kafka's client, which knows the logins (basic, bearer token, OAuth), TLS, several
addresses and retries; takes its settings under the names that Confluent's Java clients have. On top: parsed
schemas with their references, caches, and errors as one sentence.

Schemas by id never change and are kept (`cache.capacity` of them); an id that the registry does not know is
asked again after `UNKNOWN_KEPT_SECONDS`, so that a topic full of bad records is no storm of requests. The
newest version of a subject is kept for `latest.cache.ttl.sec` (60). Threads may share a client; two that want
the same schema at the same time may both ask for it.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from moldau.schemas.languages import parse
from moldau.schemas.registry_settings import RegistrySettingError, client_settings, tls_context
from moldau.schemas.schema import InvalidSchema, ParsedSchema, Reference, SchemaText, SchemaType

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema

UNKNOWN_KEPT_SECONDS = 10.0
REFERENCES_MAX = 1_000
"""Schemas that one schema may stand on, directly or not."""


class RegistryError(Exception):
    """The registry refused, or could not be reached; the message is one sentence.

    `error_code` is the registry's own (40403 for an unknown schema), 0 if it did not answer.
    """

    def __init__(self, message: str, error_code: int = 0) -> None:
        super().__init__(message)
        self.error_code = error_code

    @property
    def is_not_found(self) -> bool:
        """Whether the registry says that there is no such schema, subject or version."""
        return self.error_code == 404 or 40400 <= self.error_code < 40500


class UnusableSchema(RegistryError):
    """The registry has the schema, and it cannot be understood here: asking again does not help."""


class Registered(NamedTuple):
    """A schema with its place in the registry."""

    id: int
    version: int
    parsed: ParsedSchema
    subject: str = ""
    guid: str | None = None
    """None if the registry is too old to have them."""


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class _Cache(Generic[_Key, _Value]):
    """The values used last, each with the moment at which it is forgotten."""

    def __init__(self, capacity: int, clock: Callable[[], float]) -> None:
        self._capacity = capacity
        self._clock = clock
        self._lock = Lock()
        self._kept: OrderedDict[_Key, tuple[float, _Value]] = OrderedDict()

    def get(self, key: _Key) -> _Value | None:
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            if found[0] <= self._clock():
                del self._kept[key]
                return None
            self._kept.move_to_end(key)
            return found[1]

    def put(self, key: _Key, value: _Value, seconds: float = float("inf")) -> None:
        with self._lock:
            self._kept[key] = (self._clock() + seconds, value)
            self._kept.move_to_end(key)
            while len(self._kept) > self._capacity:
                self._kept.popitem(last=False)


class RegistryClient:
    """Reads and registers schemas. RegistryError from every method that asks the registry."""

    def __init__(self, conf: Mapping[str, str], clock: Callable[[], float] = time.monotonic) -> None:
        """Take Confluent's settings: `schema.registry.url` and so on (registry_settings.py).

        RegistryError if they are incomplete or wrong. Connects with the first request.
        """
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient
        except ImportError as missing:
            raise RegistryError(
                f"a schema registry's client is not installed ({missing.name}): pip install 'moldau[schemas]'"
            ) from None
        try:
            settings = client_settings(conf)
            if any(name.startswith("ssl.") for name in settings):
                tls_context(settings)  # whose errors say which file, unlike those of the client
            self._client = SchemaRegistryClient(settings)
        except RegistrySettingError as wrong:
            raise RegistryError(str(wrong)) from None
        except (ValueError, TypeError, OSError) as wrong:
            raise RegistryError(f"the settings of the schema registry are wrong: {wrong}") from None
        self.url = ",".join(map(_without_login, str(settings["url"]).split(",")))
        """Where it is, for messages: without a login that stands in an address."""
        capacity = int(settings["cache.capacity"])
        self._latest_seconds = float(settings["cache.latest.ttl.sec"])
        self._parsed: _Cache[int | str, ParsedSchema | RegistryError] = _Cache(capacity, clock)
        self._versions: _Cache[tuple[str, int], Registered] = _Cache(capacity, clock)
        self._latest: _Cache[str, Registered] = _Cache(capacity, clock)
        self._looked_up: _Cache[tuple[str, SchemaText, bool], Registered] = _Cache(capacity, clock)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def by_id(self, schema_id: int) -> ParsedSchema:
        """Return the schema with an id."""
        return self._kept(schema_id, lambda: self._client.get_schema(schema_id), f"schema {schema_id}")

    def by_guid(self, guid: str) -> ParsedSchema:
        """Return the schema with a GUID."""
        return self._kept(guid, lambda: self._client.get_schema_by_guid(guid), f"schema {guid}")

    def by_id_or_guid(self, schema: int | str) -> ParsedSchema:
        """Return what `wire.unpack` names."""
        return self.by_id(schema) if isinstance(schema, int) else self.by_guid(schema)

    def _kept(self, key: int | str, fetch: Callable[[], Schema], what: str) -> ParsedSchema:
        found = self._parsed.get(key)
        if found is None:
            try:
                found = self._parse(self._ask(fetch), what)
            except RegistryError as problem:
                if not problem.is_not_found and not isinstance(problem, UnusableSchema):
                    raise
                problem.__traceback__ = None
                found = problem
            seconds = UNKNOWN_KEPT_SECONDS if isinstance(found, RegistryError) else float("inf")
            self._parsed.put(key, found, seconds)
        if isinstance(found, RegistryError):
            raise type(found)(str(found), found.error_code)
        return found

    def latest(self, subject: str) -> Registered:
        """Return the newest version of a subject, at most `latest.cache.ttl.sec` old."""
        found = self._latest.get(subject)
        if found is None:
            self._client.clear_latest_caches()  # type: ignore[no-untyped-call]
            found = self._registered(self._ask(lambda: self._client.get_latest_version(subject)))
            self._latest.put(subject, found, self._latest_seconds)
        return found

    def version(self, subject: str, version: int) -> Registered:
        """Return a version of a subject, also one that was deleted softly (others may refer to it)."""
        found = self._versions.get((subject, version))
        if found is None:
            fetched = self._ask(lambda: self._client.get_version(subject, version, deleted=True))
            found = self._registered(fetched)
            self._versions.put((subject, version), found)
        return found

    def register(self, subject: str, source: SchemaText, normalize: bool = False) -> Registered:
        """Register a schema, or find it registered; return its place."""
        key = (subject, source, normalize)
        found = self._looked_up.get(key)
        if found is None:
            sent = _sent(source)
            answer = self._ask(lambda: self._client.register_schema_full_response(subject, sent, normalize))
            if answer.version is None:  # Registries before 7.4 answer with the id alone.
                found = self.lookup(subject, source, normalize)
            else:
                parsed = self._parse(sent, f"the schema of {subject!r}")
                found = Registered(answer.schema_id, answer.version, parsed, subject, answer.guid)
            self._looked_up.put(key, found)
        return found

    def lookup(self, subject: str, source: SchemaText, normalize: bool = False) -> Registered:
        """Find a schema that is registered in a subject; RegistryError with 40403 if it is not."""
        key = (subject, source, normalize)
        found = self._looked_up.get(key)
        if found is None:
            sent = _sent(source)
            answer = self._ask(lambda: self._client.lookup_schema(subject, sent, normalize))
            parsed = self._parse(sent, f"the schema of {subject!r}")
            found = Registered(answer.schema_id, answer.version, parsed, subject, answer.guid)
            self._looked_up.put(key, found)
        return found

    def parse(self, source: SchemaText) -> ParsedSchema:
        """Parse a text, its references fetched. RegistryError also if it is no schema."""
        return self._parse(_sent(source), "the schema")

    def _registered(self, answer: Any) -> Registered:
        parsed = self._parse(answer.schema, f"{answer.subject!r}, version {answer.version}")
        return Registered(answer.schema_id, answer.version, parsed, answer.subject, answer.guid)

    def _parse(self, schema: Schema, what: str) -> ParsedSchema:
        dependencies: dict[str, str] = {}
        try:
            self._collect(schema, dependencies, set())
        except RecursionError:
            raise UnusableSchema(f"{what} has references that lead too deeply into each other") from None
        references = tuple(_reference(each) for each in schema.references or ())
        try:
            schema_type = SchemaType((schema.schema_type or "AVRO").upper())
            return parse(SchemaText(schema_type, schema.schema_str or "", references), dependencies)
        except InvalidSchema as problem:
            raise UnusableSchema(f"{what} cannot be understood: {problem}") from None
        except ValueError:
            raise UnusableSchema(f"{what} is of type {schema.schema_type}, which is not known here") from None
        except ImportError as missing:
            raise RegistryError(
                f"the libraries for {schema.schema_type or 'AVRO'} are not installed ({missing.name}): "
                "pip install 'moldau[schemas]'"
            ) from None

    def _collect(self, schema: Schema, found: dict[str, str], visited: set[Reference]) -> None:
        """Fetch the texts of all references, those first that others refer to."""
        for reference in map(_reference, schema.references or ()):
            if reference in visited:
                continue
            visited.add(reference)
            name, subject, version = reference
            if len(visited) > REFERENCES_MAX:
                raise UnusableSchema(f"a schema stands on over {REFERENCES_MAX} others")
            inner = self._ask(partial(self._client.get_version, subject, version, deleted=True))
            self._collect(inner.schema, found, visited)
            found[name] = inner.schema.schema_str or ""

    def _ask(self, request: Callable[[], Any]) -> Any:
        from confluent_kafka.schema_registry.error import OAuthTokenError, SchemaRegistryError

        try:
            return request()
        except SchemaRegistryError as problem:
            code = problem.error_code if isinstance(problem.error_code, int) else problem.http_status_code
            if code <= 0:
                code = problem.http_status_code
            message = problem.error_message
            if problem.http_status_code == 401:
                message = f"it wants a login (basic.auth.user.info): {message}"
            did = "cannot answer" if problem.http_status_code >= 500 else "refused"
            raise RegistryError(f"the schema registry {self.url} {did}: {message}", code) from None
        except OAuthTokenError as problem:
            raise RegistryError(f"no token for the schema registry: {problem}") from None
        except Exception as problem:
            if type(problem).__module__.partition(".")[0] not in _TRANSPORT_MODULES:
                raise
            raise RegistryError(f"the schema registry {self.url} cannot be reached: {problem}") from None


_TRANSPORT_MODULES = frozenset({"httpx", "httpx2", "httpcore", "httpcore2", "ssl", "socket", "json"})


def _without_login(url: str) -> str:
    scheme, separator, rest = url.strip().partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"


def _reference(given: Any) -> Reference:
    return Reference(given.name or "", given.subject or "", given.version or 0)


def _sent(source: SchemaText) -> Schema:
    from confluent_kafka.schema_registry import Schema, SchemaReference

    references = [SchemaReference(each.name, each.subject, each.version) for each in source.references]
    return Schema(source.text, str(source.schema_type), references)
