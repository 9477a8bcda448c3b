"""A process's connections to schema registries.

The client keeps what it finds by id, since an id never changes its meaning, and asks again for unknown ids
after some seconds. An unknown id makes a record bad, and so does a schema that cannot be understood; a
registry that does not answer fails the task, which Spark repeats.

`folder:/path` instead of a URL is a registry in a folder, for tests (moldau.schemas.folder_registry).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from moldau.schemas.columns import UnknownSchema
from moldau.schemas.registry_client import Registered, RegistryClient, RegistryError, UnusableSchema
from moldau.schemas.schema import ParsedSchema, SchemaText
from pyspark_moldau.schema_options import REGISTRY_URL

__all__ = ["Registered", "Registry", "RegistryError", "SchemasById", "opened"]

FOLDER = "folder:"


class Registry(Protocol):
    """What queries need of a registry."""

    def by_id(self, schema_id: int) -> ParsedSchema: ...

    def by_guid(self, guid: str) -> ParsedSchema: ...

    def latest(self, subject: str) -> Registered: ...

    def version(self, subject: str, version: int) -> Registered: ...

    def register(self, subject: str, source: SchemaText, normalize: bool = False) -> Registered: ...


_opened: dict[tuple[tuple[str, str], ...], Registry] = {}


def opened(settings: Mapping[str, str]) -> Registry:
    """The registry of these settings; one client in a process."""
    key = tuple(sorted(settings.items()))
    if key not in _opened:
        _opened[key] = _open(settings)
    return _opened[key]


def _open(settings: Mapping[str, str]) -> Registry:
    url = settings.get(REGISTRY_URL, "")
    if url.startswith(FOLDER):
        from moldau.schemas.folder_registry import FolderRegistry

        return FolderRegistry(url.removeprefix(FOLDER))
    # A query that begins wants the newest schema, not that of a minute ago.
    return RegistryClient({"schema.registry.latest.cache.ttl.sec": "0.001", **settings})


class Known(Protocol):
    """A schema that came along; parsed when it is needed."""

    @property
    def parsed(self) -> ParsedSchema: ...


class SchemasById:
    """Writers' schemas as a decoder asks for them."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = settings
        self._known: dict[int, Known] = {}

    def add(self, schema_id: int, known: Known) -> None:
        """Know a schema without asking."""
        self._known[schema_id] = known

    def __call__(self, schema_id: int) -> ParsedSchema:
        """The schema of this id. UnknownSchema if the registry has none, RegistryError if it cannot say."""
        if schema_id in self._known:
            return self._known[schema_id].parsed
        return self._found(schema_id, lambda: opened(self._settings).by_id(schema_id))

    def by_guid(self, guid: str) -> ParsedSchema:
        """The same by a GUID, which newer producers put into a header."""
        return self._found(guid, lambda: opened(self._settings).by_guid(guid))

    def _found(self, name: int | str, ask: Callable[[], ParsedSchema]) -> ParsedSchema:
        try:
            return ask()
        except UnusableSchema as failure:
            raise UnknownSchema(str(failure)) from None
        except RegistryError as failure:
            if not failure.is_not_found:
                raise
            raise UnknownSchema(f"the registry has no schema {name}") from None
