"""Deletion, in two steps: first softly (found by id, not in lists), then for good.

What others refer to is not deleted. With the last version of a subject its settings go; with versions that
are gone for good goes the knowledge of their ids, so a record that keeps the highest ones is written too.
"""

from __future__ import annotations

from moldau.services.registry.names import context_of, parse_context, qualify
from moldau.services.registry.operations.core import (
    Core,
    find_version,
    parse_version_number,
    subject_not_found,
    version_not_found,
)
from moldau.services.registry.operations.registering import check_writable
from moldau.services.registry.problems import Code, RegistryProblem
from moldau.services.registry.state.records import Key, KeyType, Record, schema_value
from moldau.services.registry.topic.rounds import Decision


def decide_version_deletion(core: Core, subject: str, text: str, *, permanent: bool) -> Decision:
    """The answer is the version's number. RegistryProblem."""
    number = parse_version_number(text)
    version = find_version(core, subject, number, deleted=True)
    if version is None:
        if not core.state.has_subjects(subject, deleted=True):
            raise subject_not_found(subject)
        raise version_not_found(number)
    if version.deleted and not permanent:
        raise RegistryProblem(
            Code.VERSION_SOFT_DELETED,
            f"Subject '{subject}' Version {version.version} was soft deleted."
            "Set permanent=true to delete permanently",
        )
    check_writable(core, subject)
    check_unreferenced(core, subject, version.version)
    if not permanent:
        deleted = version._replace(deleted=True)
        return Decision([Record(_key(subject, version.version), schema_value(deleted))], version.version)
    if not version.deleted:
        raise RegistryProblem(
            Code.VERSION_NOT_SOFT_DELETED,
            f"Subject '{subject}' Version {version.version} was not deleted first before being permanently "
            "deleted",
        )
    records = [Record(_key(subject, version.version), None)]
    if len(core.state.versions(subject)) == 1:
        records += _settings_removed(core, subject)
    return Decision([*records, *_marks(core, subject)], version.version)


def decide_subject_deletion(core: Core, subject: str, *, permanent: bool) -> Decision:
    """The answer is the list of the versions that were deleted. RegistryProblem."""
    versions = core.state.versions(subject)
    live = [each for each in versions if not each.deleted]
    if not versions:
        raise subject_not_found(subject)
    if not permanent and not live:
        raise RegistryProblem(
            Code.SUBJECT_SOFT_DELETED,
            f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently",
        )
    check_writable(core, subject)
    chosen = versions if permanent else live
    for version in chosen:
        check_unreferenced(core, subject, version.version)
    numbers = [each.version for each in chosen]
    if not permanent:
        # Up to the highest version of all: an earlier record of this key is compacted away, and the versions
        # that it deleted must stay deleted.
        value = {"subject": subject, "version": versions[-1].version}
        return Decision([Record(Key(KeyType.DELETE_SUBJECT, subject), value)], numbers)
    if live:
        raise RegistryProblem(
            Code.SUBJECT_NOT_SOFT_DELETED,
            f"Subject '{subject}' was not deleted first before being permanently deleted",
        )
    records = [Record(_key(subject, number), None) for number in numbers]
    return Decision([*records, *_settings_removed(core, subject), *_marks(core, subject)], numbers)


def decide_context_deletion(core: Core, text: str) -> Decision:
    """The answer is None. RegistryProblem (CONTEXT_NOT_EMPTY)."""
    context = parse_context(text)
    if core.state.names(context):
        raise RegistryProblem(
            Code.CONTEXT_NOT_EMPTY, f"The specified context '{qualify(context, '') or context}' is not empty."
        )
    return Decision([Record(Key(KeyType.CONTEXT, context), None)], None)


def check_unreferenced(core: Core, subject: str, version: int) -> None:
    """RegistryProblem (REFERENCE_EXISTS) if a schema refers to the version."""
    if core.state.referrers(subject, version):
        raise RegistryProblem(
            Code.REFERENCE_EXISTS,
            "One or more references exist to the schema "
            f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}.",
        )


def _key(subject: str, version: int) -> Key:
    return Key(KeyType.SCHEMA, subject, version)


def _marks(core: Core, subject: str) -> list[Record]:
    return core.state.marks((context_of(subject),))


def _settings_removed(core: Core, subject: str) -> list[Record]:
    records = []
    if core.state.mode(subject) is not None:
        records.append(Record(Key(KeyType.MODE, subject), None))
    if core.state.config(subject) is not None:
        records.append(Record(Key(KeyType.CONFIG, subject), None))
    return records
