"""What the topic's records add up to: versions, ids, references, settings; changed by `replay` alone.

Ids are given within a context. Two versions with one body have one id:

    subject, version  ->  Version (id, body, deleted)
    context, id       ->  {subject: its version with this id}
    context, guid     ->  id
    subject, version  ->  ids of the schemas that refer to it, and are not deleted

A soft-deleted version is found by id and guid, and refers to nothing. A version that is deleted for good
leaves nothing behind but the knowledge that its id was given (`max_id`). A record whose id belongs to another
text is not taken, as in Confluent's registry; a record that is not understood is skipped. Both are logged.

Bodies are shared by all their versions, and freed with the last.

Invariant: the state depends on the records and their order alone. Thread-safe: each call is short, and takes
the lock. Not here: who may change what (operations/), reading the topic (topic/).
"""

from __future__ import annotations

import bisect
import logging
from collections.abc import Iterable
from threading import RLock
from typing import Any
from weakref import WeakValueDictionary

from moldau.services.registry.names import (
    ANY_CONTEXT,
    DEFAULT_CONTEXT,
    GLOBAL_CONTEXT,
    context_of,
    parse_name,
    qualified_like,
    qualify,
)
from moldau.services.registry.problems import RegistryProblem
from moldau.services.registry.state.body import AVRO, Body, Version, make_body
from moldau.services.registry.state.document import parse_metadata, parse_rule_set
from moldau.services.registry.state.highest_ids import HighestIds
from moldau.services.registry.state.records import (
    Key,
    KeyType,
    Record,
    UnknownRecord,
    context_value,
    encode_json,
    encode_key,
    mode_value,
    number,
    parse_key,
    parse_references,
    parse_value,
    schema_value,
)

log = logging.getLogger("moldau.registry.state.state")
_NAMES_PER_LOCK = 1_000
"""Who waits for the lock (the event loop, for one schema) does not wait for a long list."""
_LAST = "\U0010ffff"
"""Behind every name that starts with what stands before it."""


class State:
    """All that is registered."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._subjects: dict[str, dict[int, Version]] = {}
        self._names: dict[str, list[str]] = {}
        self._by_id: dict[str, dict[int, dict[str, int]]] = {}
        self._id_of_guid: dict[str, dict[bytes, int]] = {}
        self._referrers: dict[tuple[str, int], dict[tuple[str, int], tuple[str, int]]] = {}
        self._configs: dict[str, dict[str, Any]] = {}
        self._modes: dict[str, str] = {}
        self._contexts: set[str] = set()
        self._sorted_contexts: list[str] | None = None
        """What `contexts` answers, until it changes."""
        self._highest_ids = HighestIds()
        self._bodies: WeakValueDictionary[bytes, Body] = WeakValueDictionary()
        self._spellings: dict[Key, list[bytes]] = {}
        self._aborted: set[Key] = set()

    # Replay

    def replay(
        self, key_bytes: bytes | None, value_bytes: bytes | None, timestamp_ms: int, offset: int
    ) -> None:
        """Take over one record."""
        try:
            if key_bytes is None:
                raise UnknownRecord("it has no key")
            key = parse_key(bytes(key_bytes))
            value = None if value_bytes is None else parse_value(bytes(value_bytes))
            with self._lock:
                self._remember_spelling(key, bytes(key_bytes), exists=value is not None)
                self._aborted.discard(key)
                self._take(key, value, timestamp_ms)
        except (UnknownRecord, RegistryProblem) as problem:
            log.warning("the record at offset %d of the schemas' topic is skipped: %s", offset, problem)

    def replay_aborted(self, key_bytes: bytes | None, value_bytes: bytes | None) -> None:
        """A record of an aborted transaction: it is not there, but others may have seen its id."""
        try:
            key = parse_key(bytes(key_bytes or b""))
            value = None if value_bytes is None else parse_value(bytes(value_bytes))
            with self._lock:
                self._aborted.add(key)
                if key.keytype == KeyType.SCHEMA and value is not None:
                    self._highest_ids.saw(context_of(key.subject), number(value, "id"))
        except UnknownRecord:
            return

    def _take(self, key: Key, value: dict[str, Any] | None, timestamp_ms: int) -> None:
        match key.keytype:
            case KeyType.SCHEMA:
                self._take_schema(key, value, timestamp_ms)
            case KeyType.DELETE_SUBJECT:
                if value is not None:
                    self._delete_up_to(key.subject, number(value, "version"))
            case KeyType.CLEAR_SUBJECT:
                if value is not None:
                    self._clear(key.subject)
            case KeyType.CONFIG:
                _put_or_remove(self._configs, key.subject, None if value is None else _config(value))
            case KeyType.MODE:
                mode = None if value is None else value.get("mode")
                if value is not None and not isinstance(mode, str):
                    raise UnknownRecord(f"its mode is {mode!r}")
                _put_or_remove(self._modes, key.subject, mode)
            case KeyType.CONTEXT:
                change = self._contexts.discard if value is None else self._contexts.add
                change(key.subject)
                self._sorted_contexts = None
            case KeyType.NOOP:
                self._highest_ids.replay(key.version, value)

    def _take_schema(self, key: Key, value: dict[str, Any] | None, timestamp_ms: int) -> None:
        if value is None:
            self._forget(key.subject, key.version)
            return
        text, schema_id = value.get("schema"), number(value, "id")
        if not isinstance(text, str):
            raise UnknownRecord("it has no schema")
        context = context_of(key.subject)
        self._highest_ids.saw(context, schema_id)
        body = self._body(value, text)
        self._check_id(context, schema_id, key, text)
        self._forget(key.subject, key.version)
        deleted = value.get("deleted") is True
        self._remember(Version(key.subject, key.version, schema_id, body, deleted, timestamp_ms))

    def _body(self, value: dict[str, Any], text: str) -> Body:
        schema_type = value.get("schemaType") or AVRO
        if not isinstance(schema_type, str):
            raise UnknownRecord(f"its schemaType is {schema_type!r}")
        references = parse_references(value.get("references"))
        body = make_body(
            schema_type,
            text,
            references,
            parse_metadata(value.get("metadata")),
            parse_rule_set(value.get("ruleSet")),
        )
        shared = self._bodies.get(body.guid_bytes)
        if shared is not None and shared.schema_type == schema_type:
            return shared
        self._bodies[body.guid_bytes] = body
        return body

    def _check_id(self, context: str, schema_id: int, key: Key, text: str) -> None:
        """All versions with an id have one text, so one of them is enough to compare with."""
        for subject, version in self._by_id.get(context, {}).get(schema_id, {}).items():
            if (subject, version) == (key.subject, key.version):
                continue  # which this record replaces
            if self._subjects[subject][version].body.text == text:
                return
            raise UnknownRecord(
                f"{key.subject} version {key.version} has the id {schema_id} of another schema"
            )

    def _remember(self, version: Version) -> None:
        subject, context = version.subject, context_of(version.subject)
        versions = self._subjects.get(subject)
        if versions is None:
            versions = self._subjects[subject] = {}
            if context not in self._names:
                self._names[context] = []
                self._sorted_contexts = None
            bisect.insort(self._names[context], subject)
        versions[version.version] = version
        self._by_id.setdefault(context, {}).setdefault(version.id, {})[subject] = version.version
        self._id_of_guid.setdefault(context, {})[version.body.guid_bytes] = version.id
        if not version.deleted:
            for target in self._targets(version):
                self._referrers.setdefault(target, {})[subject, version.version] = (context, version.id)

    def _forget(self, subject: str, number: int) -> None:
        version = self._subjects.get(subject, {}).pop(number, None)
        if version is None:
            return
        context = context_of(subject)
        if not self._subjects[subject]:
            del self._subjects[subject]
            names = self._names[context]
            del names[bisect.bisect_left(names, subject)]
            if not names:
                del self._names[context]
                self._sorted_contexts = None
        self._forget_references(version)
        ids = self._by_id[context]
        places = ids.get(version.id, {})
        if places.get(subject) == number:
            del places[subject]
            others = [each for each in self._subjects.get(subject, {}).values() if each.id == version.id]
            if others:
                places[subject] = max(each.version for each in others)
        if not places:
            ids.pop(version.id, None)
        if self._id_of_guid[context].get(version.body.guid_bytes) == version.id and not any(
            self._subjects[name][at].body is version.body for name, at in places.items()
        ):
            del self._id_of_guid[context][version.body.guid_bytes]

    def _forget_references(self, version: Version) -> None:
        for target in self._targets(version):
            referrers = self._referrers.get(target)
            if referrers is not None:
                referrers.pop((version.subject, version.version), None)
                if not referrers:
                    del self._referrers[target]

    @staticmethod
    def _targets(version: Version) -> list[tuple[str, int]]:
        return [
            (qualified_like(each.subject, version.subject), each.version) for each in version.body.references
        ]

    def _delete_up_to(self, subject: str, last: int) -> None:
        for version in list(self._subjects.get(subject, {}).values()):
            if version.version <= last and not version.deleted:
                self._forget_references(version)
                self._subjects[subject][version.version] = version._replace(deleted=True)

    def _clear(self, subject: str) -> None:
        """Confluent clears soft-deleted versions before an import."""
        for name in self._matching(subject):
            for version in [each for each in self._subjects[name].values() if each.deleted]:
                self._forget(name, version.version)

    def _remember_spelling(self, key: Key, key_bytes: bytes, *, exists: bool) -> None:
        """Keep how a key is spelled in the topic, where that is not how we spell it."""
        spellings = self._spellings.get(key, [])
        if not spellings and key_bytes == encode_key(key):
            return
        spellings = [each for each in spellings or [encode_key(key)] if each != key_bytes]
        _put_or_remove(self._spellings, key, [*spellings, key_bytes] if exists else spellings)

    # Versions

    def get(self, subject: str, version: int) -> Version | None:
        """A version, deleted or not."""
        with self._lock:
            return self._subjects.get(subject, {}).get(version)

    def versions(self, subject: str) -> list[Version]:
        """All versions of a subject, also soft-deleted ones, oldest first."""
        with self._lock:
            found = self._subjects.get(subject, {})
            return [found[version] for version in sorted(found)]

    def latest(self, subject: str) -> Version | None:
        """The newest version that is not deleted."""
        with self._lock:
            found = (each for each in self._subjects.get(subject, {}).values() if not each.deleted)
            return max(found, key=lambda each: each.version, default=None)

    def names(self, context: str, prefix: str = "", *, is_live: bool | None = None) -> list[str]:
        """The subjects of a context (or of any) whose names within it start with `prefix`, sorted by context
        and name; if `is_live` is given, those that have (or have not) a version that is not deleted.
        """
        with self._lock:
            contexts = sorted(self._names) if context == ANY_CONTEXT else [context]
            found: list[str] = []
            for each in contexts:
                names = self._names.get(each, [])
                if prefix:
                    start = bisect.bisect_left(names, qualify(each, prefix))
                    end = bisect.bisect_left(names, qualify(each, prefix) + _LAST, start)
                    names = names[start:end]
                found += names
        if is_live is None:
            return found
        chosen: list[str] = []
        for start in range(0, len(found), _NAMES_PER_LOCK):
            chosen += self._chosen(found[start : start + _NAMES_PER_LOCK], is_live)
        return chosen

    def _chosen(self, names: list[str], is_live: bool) -> list[str]:
        with self._lock:
            found = ((name, self._subjects.get(name, {}).values()) for name in names)
            return [name for name, each in found if each and is_live != all(v.deleted for v in each)]

    def matching(self, subject: str) -> list[str]:
        """The subjects that a setting of `subject` stands for: itself, those of a context, or ("", and the
        global context) all.
        """
        with self._lock:
            return self._matching(subject)

    def _matching(self, subject: str) -> list[str]:
        if not subject:
            return list(self._subjects)
        parsed = parse_name(subject)
        if parsed.subject:
            return [subject] if subject in self._subjects else []
        if parsed.context == GLOBAL_CONTEXT:
            return list(self._subjects)
        return list(self._names.get(parsed.context, ()))

    def has_subjects(self, subject: str, *, deleted: bool) -> bool:
        """Whether `matching(subject)` has a version (if `deleted`, a soft-deleted one will do)."""
        with self._lock:
            return any(
                deleted or not each.deleted
                for name in self._matching(subject)
                for each in self._subjects[name].values()
            )

    def referrers(self, subject: str, version: int) -> list[int]:
        """The ids of schemas that refer to this version, sorted."""
        with self._lock:
            found = self._referrers.get((subject, version), {})
            return sorted({schema_id for _, schema_id in found.values()})

    # Ids

    def places(self, context: str, schema_id: int) -> dict[str, int]:
        """The subjects of a context that have this id, each with its version."""
        with self._lock:
            return dict(self._by_id.get(context, {}).get(schema_id, {}))

    def place(self, context: str, schema_id: int, subject: str) -> int | None:
        """The version with which a subject has an id."""
        with self._lock:
            return self._by_id.get(context, {}).get(schema_id, {}).get(subject)

    def any_place(self, context: str, schema_id: int) -> Version | None:
        """Some version that has an id."""
        with self._lock:
            places = self._by_id.get(context, {}).get(schema_id, {})
            return next((self._subjects[name][number] for name, number in places.items()), None)

    def id_of(self, context: str, body: Body) -> int | None:
        """The id that this body has in a context."""
        with self._lock:
            return self._id_of_guid.get(context, {}).get(body.guid_bytes)

    def id_of_guid(self, context: str, guid_bytes: bytes) -> int | None:
        """The id that a guid has in a context."""
        with self._lock:
            return self._id_of_guid.get(context, {}).get(guid_bytes)

    def max_id(self, context: str) -> int:
        """The highest id that was ever given in a context; 0 if none was."""
        with self._lock:
            return self._highest_ids.get(context)

    def max_id_below_margin(self, context: str) -> int:
        """As `max_id`, without the ids that no import may bring any more."""
        with self._lock:
            return self._highest_ids.below_margin(context)

    def contexts(self) -> list[str]:
        """All contexts but the default one, sorted."""
        with self._lock:
            if self._sorted_contexts is None:
                self._sorted_contexts = sorted({*self._contexts, *self._names} - {DEFAULT_CONTEXT})
            return list(self._sorted_contexts)

    def has_context_record(self, context: str) -> bool:
        """Whether the topic says that there is this context."""
        with self._lock:
            return context in self._contexts

    # Settings

    def config(self, subject: str) -> dict[str, Any] | None:
        """What is set for exactly this subject or context ("": globally)."""
        with self._lock:
            return self._configs.get(subject)

    def configs(self) -> dict[str, dict[str, Any]]:
        """All settings by subject."""
        with self._lock:
            return dict(self._configs)

    def mode(self, subject: str) -> str | None:
        """The mode set for exactly this subject or context ("": globally)."""
        with self._lock:
            return self._modes.get(subject)

    def modes(self) -> dict[str, str]:
        """All modes by subject."""
        with self._lock:
            return dict(self._modes)

    # For the writer

    def encode(self, records: Iterable[Record]) -> list[tuple[bytes, bytes | None]]:
        """Records as keys and values, with the spelling that a key has in the topic; other spellings of it
        are removed first.
        """
        encoded: list[tuple[bytes, bytes | None]] = []
        with self._lock:
            for key, value in records:
                spellings = self._spellings.get(key) or [encode_key(key)]
                encoded += [(spelling, None) for spelling in spellings[:-1]]
                encoded.append((spellings[-1], None if value is None else encode_json(value)))
        return encoded

    def repairs(self) -> list[Record]:
        """What a new primary writes first: the values of keys whose last record was aborted, for registries
        that read uncommitted records, and the highest ids, if no schema has them any more.
        """
        with self._lock:
            keys: set[Key] = set()
            for key in self._aborted:
                if key.keytype == KeyType.DELETE_SUBJECT:
                    versions = self._subjects.get(key.subject, {})
                    keys |= {Key(KeyType.SCHEMA, key.subject, each) for each in versions}
                elif key.keytype not in (KeyType.NOOP, KeyType.CLEAR_SUBJECT):
                    keys.add(key)
            lost = [
                context
                for context, schema_id in self._highest_ids.items()
                if schema_id > self._highest_ids.written(context)
                and schema_id > max(self._by_id.get(context, ()), default=0)
            ]
            repaired = [Record(key, self._value(key)) for key in sorted(keys)]
            return [*repaired, *self._highest_ids.records(lost)]

    def _value(self, key: Key) -> dict[str, Any] | None:
        match key.keytype:
            case KeyType.SCHEMA:
                version = self._subjects.get(key.subject, {}).get(key.version)
                return None if version is None else schema_value(version)
            case KeyType.CONFIG:
                return self._configs.get(key.subject)
            case KeyType.MODE:
                mode = self._modes.get(key.subject)
                return None if mode is None else mode_value(key.subject, mode)
            case _:
                return context_value(key.subject) if key.subject in self._contexts else None

    def marks(self, contexts: Iterable[str]) -> list[Record]:
        """Records that keep the highest ids of contexts: written with what deletes schemas for good."""
        with self._lock:
            return self._highest_ids.records(contexts)


def _config(value: dict[str, Any]) -> dict[str, Any]:
    """Settings as they are kept: metadata and rules in their one form. RegistryProblem."""
    parsers = {
        "defaultMetadata": parse_metadata,
        "overrideMetadata": parse_metadata,
        "defaultRuleSet": parse_rule_set,
        "overrideRuleSet": parse_rule_set,
    }
    documents = {name: parse(value[name]) for name, parse in parsers.items() if name in value}
    return {**value, **documents}


def _put_or_remove(table: dict[Any, Any], key: Any, value: Any) -> None:
    if value is None or value == []:
        table.pop(key, None)
    else:
        table[key] = value
