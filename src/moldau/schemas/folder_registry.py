"""A registry in a folder, for tests of pipelines: answers what RegistryClient answers, from files that every
process of a test sees.

    000001.json  000002.json ...   {"subject", "version", "id", "schemaType", "schema", "references"}

A file is one version of a subject, and complete when it has its name; the same schema has the same id in all
subjects. A new version must be able to read the newest one, as in a registry with the level BACKWARD. One
process registers at a time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from moldau.schemas.languages import parse
from moldau.schemas.registry_client import Registered, RegistryError
from moldau.schemas.schema import InvalidSchema, ParsedSchema, Reference, SchemaText, SchemaType

SUBJECT_NOT_FOUND, VERSION_NOT_FOUND, SCHEMA_NOT_FOUND = 40401, 40402, 40403
INCOMPATIBLE, INVALID = 409, 42201

_Entry = Mapping[str, Any]
_registering = Lock()


class FolderRegistry:
    """Reads and registers schemas. RegistryError from every method."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._parsed: dict[SchemaText, ParsedSchema] = {}

    def by_id(self, schema_id: int) -> ParsedSchema:
        """Return the schema with an id."""
        for entry in self._entries():
            if entry["id"] == schema_id:
                return self._schema(entry)
        raise RegistryError(f"the registry of the test has no schema {schema_id}", SCHEMA_NOT_FOUND)

    def by_guid(self, guid: str) -> ParsedSchema:
        """There are none."""
        raise RegistryError(f"the registry of the test has no schema {guid}", SCHEMA_NOT_FOUND)

    def latest(self, subject: str) -> Registered:
        """Return the newest version of a subject."""
        return self._registered(self._versions(subject)[-1])

    def version(self, subject: str, version: int) -> Registered:
        """Return a version of a subject."""
        versions = self._versions(subject)
        if not 1 <= version <= len(versions):
            raise RegistryError(
                f"the registry of the test has no version {version} of {subject!r}", VERSION_NOT_FOUND
            )
        return self._registered(versions[version - 1])

    def register(self, subject: str, source: SchemaText, normalize: bool = False) -> Registered:
        """Register a schema, or find it registered; return its place."""
        with _registering:
            entries = self._entries()
            try:
                schema = parse(source, self._dependencies(source))
            except InvalidSchema as problem:
                raise RegistryError(f"the schema of {subject!r} is invalid: {problem}", INVALID) from None
            text = schema.normalized() if normalize else schema.canonical
            written = {
                "schemaType": str(source.schema_type),
                "schema": text,
                "references": [list(each) for each in source.references],
            }
            same = [each for each in entries if all(each[name] == written[name] for name in written)]
            versions = [each for each in entries if each["subject"] == subject]
            for each in same:
                if each["subject"] == subject:
                    return self._registered(each)
            if versions:
                self._check(subject, schema, self._schema(versions[-1]))
            new_id = same[0]["id"] if same else 1 + max((each["id"] for each in entries), default=0)
            entry = {"subject": subject, "version": len(versions) + 1, "id": new_id, **written}
            self._add(len(entries) + 1, entry)
            return self._registered(entry)

    def _check(self, subject: str, new: ParsedSchema, previous: ParsedSchema) -> None:
        if new.schema_type is not previous.schema_type:
            raise RegistryError(f"{subject!r} has {previous.schema_type} schemas", INCOMPATIBLE)
        differences = new.differences(previous)
        if differences:
            raise RegistryError(
                f"the schema cannot read the newest of {subject!r}: {differences[0].description}",
                INCOMPATIBLE,
            )

    def _add(self, number: int, entry: _Entry) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        unfinished = self._folder / "unfinished"
        unfinished.write_text(json.dumps(entry))
        unfinished.rename(self._folder / f"{number:06d}.json")

    def _entries(self) -> list[_Entry]:
        return [json.loads(path.read_text()) for path in sorted(self._folder.glob("*.json"))]

    def _versions(self, subject: str) -> list[_Entry]:
        found = [each for each in self._entries() if each["subject"] == subject]
        if not found:
            raise RegistryError(f"the registry of the test has no subject {subject!r}", SUBJECT_NOT_FOUND)
        return found

    def _registered(self, entry: _Entry) -> Registered:
        return Registered(entry["id"], entry["version"], self._schema(entry), entry["subject"])

    def _schema(self, entry: _Entry) -> ParsedSchema:
        source = _source(entry)
        if source not in self._parsed:
            self._parsed[source] = parse(source, self._dependencies(source))
        return self._parsed[source]

    def _dependencies(self, source: SchemaText) -> dict[str, str]:
        """The texts of all references, those first that others use."""
        found: dict[str, str] = {}
        for name, subject, version in source.references:
            versions = self._versions(subject)
            if not 1 <= version <= len(versions):
                raise RegistryError(f"the reference {name} is to version {version} of {subject!r}", INVALID)
            referred = _source(versions[version - 1])
            found |= self._dependencies(referred)
            found[name] = referred.text
        return found


def _source(entry: _Entry) -> SchemaText:
    references = tuple(Reference(*each) for each in entry["references"])
    return SchemaText(SchemaType(entry["schemaType"]), entry["schema"], references)
