"""Parsed schemas: references looked up in the state, results of parsing and comparing cached.

A parsed schema depends on its text and on the texts of everything that it refers to; these are its key in the
cache (as a hash), not its id: a version that was deleted for good may be registered again with another text.
The caches are bounded by entries and by the size of the texts. Thread-safe; parsing is done outside the lock,
so two threads may do the same work once.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

from moldau.schemas.compatibility import Level, Policy, check, messages
from moldau.schemas.languages import parse
from moldau.schemas.schema import InvalidSchema, ParsedSchema, Reference, SchemaText, SchemaType
from moldau.services.registry.names import qualified_like
from moldau.services.registry.problems import Code, RegistryProblem
from moldau.services.registry.state.body import Body, Version
from moldau.services.registry.state.state import State

_CACHED_CHARACTERS_MAX = 16 * 1024 * 1024
_WEIGHT_OF_TREES = 8
"""Parsed Protobuf keeps its tree, 14 times as large as its text; other languages theirs only for a while."""
_CACHED_LINES_CHARACTERS_MAX = 4 * 1024 * 1024
_REFERENCES_MAX = 10_000
_REFERENCED_CHARACTERS_MAX = 8 * 1024 * 1024
"""All that a schema refers to is read with it, each time that it falls out of the cache."""
ValueT = TypeVar("ValueT")


class Parsed(NamedTuple):
    """A schema, and the hash of all that it depends on."""

    schema: ParsedSchema
    digest: bytes

    def formatted(self, wanted: str) -> str:
        """The text in a format ("" is canonical). RegistryProblem: some names are looked up only then."""
        return self._printed(lambda: self.schema.formatted(wanted) if wanted else self.schema.canonical)

    def normalized(self) -> str:
        """The text without what has no meaning. RegistryProblem."""
        return self._printed(self.schema.normalized)

    def _printed(self, print_it: Callable[[], str]) -> str:
        try:
            return print_it()
        except InvalidSchema as error:
            raise invalid_schema(self.schema.schema_type, error) from None


class Cache(Generic[ValueT]):
    """The values that were used last, by key; each has a weight."""

    def __init__(self, entries_max: int, weight_max: int) -> None:
        self._entries_max, self._weight_max = entries_max, weight_max
        self._entries: OrderedDict[object, tuple[ValueT, int]] = OrderedDict()
        self._weight = 0
        self._lock = Lock()

    def get(self, key: object) -> ValueT | None:
        """The value, if it is there."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            self._entries.move_to_end(key)
            return found[0]

    def put(self, key: object, value: ValueT, weight: int) -> None:
        """Keep a value unless it is too heavy by itself, and forget those that were used longest ago."""
        if weight > self._weight_max:
            return
        with self._lock:
            old = self._entries.pop(key, None)
            self._weight += weight - (0 if old is None else old[1])
            self._entries[key] = (value, weight)
            while self._entries and (
                len(self._entries) > self._entries_max or self._weight > self._weight_max
            ):
                _, (_, dropped) = self._entries.popitem(last=False)
                self._weight -= dropped


class Parser:
    """Parses and compares what the state has, and what comes in."""

    def __init__(self, state: State, entries_max: int) -> None:
        self._state = state
        self._parsed: Cache[Parsed] = Cache(entries_max, _CACHED_CHARACTERS_MAX)
        self._lines: Cache[list[str]] = Cache(entries_max * 4, _CACHED_LINES_CHARACTERS_MAX)

    def parse_version(self, version: Version) -> Parsed:
        """The schema of a version. RegistryProblem (INVALID_SCHEMA)."""
        return self.parse_body(version.subject, version.body)

    def parse_body(self, subject: str, body: Body) -> Parsed:
        """The schema of a body that belongs to `subject`. RegistryProblem (INVALID_SCHEMA)."""
        return self.parse(subject, body.schema_type, body.text, body.references)

    def parse(self, subject: str, schema_type: str, text: str, references: tuple[Reference, ...]) -> Parsed:
        """A schema whose references are meant in the context of `subject`. RegistryProblem."""
        try:
            language = SchemaType(schema_type)
        except ValueError:
            raise RegistryProblem(Code.INVALID_SCHEMA, f"Invalid schema type {schema_type}") from None
        texts = self._dependencies(subject, references)
        digest = _digest(schema_type, text, references, texts)
        found = self._parsed.get(digest)
        if found is None:
            try:
                schema = parse(SchemaText(language, text, references), texts)
            except InvalidSchema as error:
                raise invalid_schema(language, error) from None
            found = Parsed(schema, digest)
            weight = len(text) + sum(map(len, texts.values()))
            if language is SchemaType.PROTOBUF:
                weight *= _WEIGHT_OF_TREES
            self._parsed.put(digest, found, weight)
        return found

    def incompatible_lines(
        self, level: Level, policy: Policy, new: Parsed, previous: Sequence[Version], checks_fields: bool
    ) -> list[str]:
        """Why a schema may not follow versions (oldest first), in Confluent's lines, cached. RegistryProblem
        if that would take too long.

        The cache knows versions by number and guid: what they refer to is not deleted while they are not.
        """
        if not previous:
            return []
        versions = tuple((each.subject, each.version, each.body.guid_bytes) for each in previous)
        key = (level, policy, new.digest, versions, checks_fields)
        lines = self._lines.get(key)
        if lines is None:
            parsed = [self.parse_version(each).schema for each in previous]
            try:
                found = check(level, new.schema, parsed, policy)
            except InvalidSchema as error:
                raise invalid_schema(new.schema.schema_type, error) from None
            numbers = [each.version for each in previous]
            lines = messages(level, found, parsed, numbers, checks_fields)
            self._lines.put(key, lines, sum(map(len, lines)) + 100 * len(previous))
        return lines

    def _dependencies(self, subject: str, references: Sequence[Reference]) -> dict[str, str]:
        """The texts that references mean, by name, those that others use first. RegistryProblem."""
        texts: dict[str, str] = {}
        characters = 0
        if not references:
            return texts
        started: set[str] = set()
        # Depth first, by a stack: an attacker decides how deep it goes.
        stack = [(subject, reference, False) for reference in reversed(references)]
        while stack:
            parent, reference, is_done = stack.pop()
            if reference.name in texts or (reference.name in started and not is_done):
                continue
            version = self.referenced(parent, reference)
            if is_done:
                texts[reference.name] = version.body.text
                characters += len(version.body.text)
                if characters > _REFERENCED_CHARACTERS_MAX:
                    raise RegistryProblem(
                        Code.INVALID_SCHEMA,
                        f"What it refers to has more than {_REFERENCED_CHARACTERS_MAX} characters",
                    )
                continue
            started.add(reference.name)
            if len(started) > _REFERENCES_MAX:
                raise RegistryProblem(Code.INVALID_SCHEMA, f"More than {_REFERENCES_MAX} references")
            stack.append((parent, reference, True))
            stack += [(version.subject, each, False) for each in reversed(version.body.references)]
        return texts

    def referenced(self, subject: str, reference: Reference) -> Version:
        """The version that a reference of a schema of `subject` means. RegistryProblem."""
        target = qualified_like(reference.subject, subject)
        if reference.version < 1:
            version = self._state.latest(target)
        else:
            version = self._state.get(target, reference.version)
        if version is None:
            raise RegistryProblem(
                Code.INVALID_SCHEMA,
                f'No schema reference found for subject "{reference.subject}" and version '
                f"{reference.version}",
            )
        return version


def invalid_schema(schema_type: str, error: Exception) -> RegistryProblem:
    """The refusal of a schema that its language does not understand."""
    return RegistryProblem(Code.INVALID_SCHEMA, f"Invalid schema of type {schema_type}, details: {error}")


def _digest(schema_type: str, text: str, references: tuple[Reference, ...], texts: dict[str, str]) -> bytes:
    digest = hashlib.sha256()
    parts = [schema_type, text, *(part for each in references for part in map(str, each))]
    for part in [*parts, *(part for pair in texts.items() for part in pair)]:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.digest()
