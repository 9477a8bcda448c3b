"""Settings and modes of subjects, contexts ("" after the context) and the whole registry ("")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.schemas.compatibility import Level, Policy
from moldau.services.registry.names import GLOBAL_CONTEXT, context_of, qualify
from moldau.services.registry.operations.core import Core, subject_not_found
from moldau.services.registry.operations.deleting import check_unreferenced
from moldau.services.registry.operations.registering import check_writable
from moldau.services.registry.operations.scope import (
    IMPORT,
    LEVEL,
    MODES,
    READWRITE,
    config_in_scope,
    default_level,
    mode_in_scope,
)
from moldau.services.registry.problems import Code, RegistryProblem
from moldau.services.registry.state.document import check_rule_set, parse_metadata, parse_rule_set
from moldau.services.registry.state.records import Key, KeyType, Record, mode_value
from moldau.services.registry.topic.rounds import Decision

_REQUESTED_LEVEL = "compatibility"
_WITH_DEFAULTS = ("", qualify(GLOBAL_CONTEXT, ""))
"""Asked for their own settings, these tell the defaults where they have none."""
_FLAGS = ("normalize", "validateFields", "validateNames", "validateRules")
_ORDER = (
    "alias",
    *_FLAGS,
    LEVEL,
    "compatibilityPolicy",
    "compatibilityGroup",
    "defaultMetadata",
    "overrideMetadata",
    "defaultRuleSet",
    "overrideRuleSet",
)


def read_config(core: Core, subject: str, *, default_to_global: bool) -> dict[str, Any]:
    """RegistryProblem (NO_SUBJECT_LEVEL)."""
    if default_to_global:
        return _shown(config_in_scope(core, subject))
    config = core.state.config(subject)
    if subject in _WITH_DEFAULTS:
        config = {LEVEL: default_level(core), **(config or {})}
    if config is None:
        raise RegistryProblem(
            Code.NO_SUBJECT_LEVEL,
            f"Subject '{subject}' does not have subject-level compatibility configured",
        )
    return _shown(config)


def decide_config(core: Core, subject: str, raw: Mapping[str, Any]) -> Decision:
    """The answer is all that is set then, with the level under the request's name. RegistryProblem."""
    changes = _parse_config(raw)
    check_writable(core, subject)
    merged = {**(core.state.config(subject) or {}), **changes}
    config = {name: merged[name] for name in _ORDER if merged.get(name) is not None}
    value = {**({"subject": subject} if subject else {}), **config}
    answer = {_REQUESTED_LEVEL if name == LEVEL else name: each for name, each in config.items()}
    return Decision([Record(Key(KeyType.CONFIG, subject), value)], answer)


def decide_config_deletion(core: Core, subject: str) -> Decision:
    """The answer is what was set. RegistryProblem (SUBJECT_NOT_FOUND)."""
    config = core.state.config(subject)
    if config is None and subject:
        raise subject_not_found(subject)
    check_writable(core, subject)
    shown = _shown(config or {})
    if not subject:
        shown = {LEVEL: default_level(core), **shown}
    return Decision([] if config is None else [Record(Key(KeyType.CONFIG, subject), None)], shown)


def read_mode(core: Core, subject: str, *, default_to_global: bool) -> dict[str, Any]:
    """RegistryProblem (NO_SUBJECT_MODE)."""
    if default_to_global:
        return {"mode": mode_in_scope(core, subject)}
    mode = core.state.mode(subject)
    if mode is None and subject in _WITH_DEFAULTS:
        mode = READWRITE
    if mode is None:
        raise RegistryProblem(
            Code.NO_SUBJECT_MODE, f"Subject '{subject}' does not have subject-level mode configured"
        )
    return {"mode": mode}


def decide_mode(core: Core, subject: str, raw: Mapping[str, Any], *, force: bool) -> Decision:
    """The answer is the mode. RegistryProblem (INVALID_MODE, NOT_PERMITTED, REFERENCE_EXISTS)."""
    wanted = raw.get("mode")
    mode = wanted.upper() if isinstance(wanted, str) else ""
    if mode not in MODES:
        raise RegistryProblem(Code.INVALID_MODE, f"Invalid mode. Valid values are {', '.join(MODES)}")
    _check_mutable(core)
    records: list[Record] = []
    if mode == IMPORT and mode_in_scope(core, subject) != IMPORT and not force:
        records = _cleared(core, subject)
    records.append(Record(Key(KeyType.MODE, subject), mode_value(subject, mode)))
    return Decision(records, {"mode": mode})


def decide_mode_deletion(core: Core, subject: str, *, recursive: bool) -> Decision:
    """The answer is the mode that was set. RegistryProblem (SUBJECT_NOT_FOUND, NOT_PERMITTED)."""
    _check_mutable(core)
    mode = core.state.mode(subject)
    if mode is None and subject:
        raise subject_not_found(subject)
    names = {subject}
    if recursive:
        names |= {*core.state.matching(subject)}
    records = [
        Record(Key(KeyType.MODE, name), None) for name in sorted(names) if core.state.mode(name) is not None
    ]
    return Decision(records, {"mode": mode or READWRITE})


def _cleared(core: Core, subject: str) -> list[Record]:
    """What removes soft-deleted versions before an import, which needs all their ids and versions."""
    if core.state.has_subjects(subject, deleted=False):
        raise RegistryProblem(Code.NOT_PERMITTED, "Cannot import since found existing subjects")
    records: list[Record] = []
    contexts: set[str] = set()
    for name in core.state.matching(subject):
        contexts.add(context_of(name))
        for version in core.state.versions(name):
            check_unreferenced(core, name, version.version)
            records.append(Record(Key(KeyType.SCHEMA, name, version.version), None))
    records += core.state.marks(contexts)
    value = {"subject": subject} if subject else {}
    return [*records, Record(Key(KeyType.CLEAR_SUBJECT, subject), value)]


def _check_mutable(core: Core) -> None:
    if not core.settings.mode_mutability:
        raise RegistryProblem(Code.NOT_PERMITTED, "Mode changes are not allowed")


def _shown(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: config[name] for name in _ORDER if config.get(name) is not None}


def _parse_config(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a request; None removes one. RegistryProblem (INVALID_LEVEL, 422)."""
    changes: dict[str, Any] = {}
    if _REQUESTED_LEVEL in raw or LEVEL in raw:
        changes[LEVEL] = _parse_level(raw.get(_REQUESTED_LEVEL, raw.get(LEVEL)))
    for name in _FLAGS:
        if name in raw:
            changes[name] = _typed(raw[name], bool, name, "true or false")
    for name in ("alias", "compatibilityGroup"):
        if name in raw:
            changes[name] = _typed(raw[name], str, name, "a text") or None
    if "compatibilityPolicy" in raw:
        policy = _typed(raw["compatibilityPolicy"], str, "compatibilityPolicy", "a text")
        if policy is not None and policy.upper() not in Policy.__members__:
            raise RegistryProblem(422, "Invalid compatibility policy. Valid values are strict and lenient")
        changes["compatibilityPolicy"] = None if policy is None else policy.upper()
    for name in ("defaultMetadata", "overrideMetadata"):
        if name in raw:
            changes[name] = parse_metadata(raw[name])
    for name in ("defaultRuleSet", "overrideRuleSet"):
        if name in raw:
            changes[name] = parse_rule_set(raw[name])
            check_rule_set(changes[name])
    return changes


def _parse_level(wanted: Any) -> str | None:
    if wanted is None:
        return None
    if isinstance(wanted, str) and wanted.upper() in Level.__members__:
        return wanted.upper()
    raise RegistryProblem(
        Code.INVALID_LEVEL,
        "Invalid compatibility level. Valid values are none, backward, forward, full, backward_transitive, "
        "forward_transitive, and full_transitive",
    )


def _typed(value: Any, wanted: type, name: str, words: str) -> Any:
    if value is None or isinstance(value, wanted):
        return value
    raise RegistryProblem(422, f"The field {name} must be {words}")
