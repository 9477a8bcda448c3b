"""Which settings hold for a subject: its own, else its context's, else those of the global context, else
those of the default context, else the defaults.

The first that are set hold as a whole, as in Confluent's registry; only a compatibility level that they lack
is looked for further on. The default context's settings ("") stand before the global context's for its own
subjects, behind them for others. A mode READONLY_OVERRIDE of any of these holds whatever a subject says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moldau.schemas.compatibility import Level, Policy
from moldau.services.registry.names import (
    DEFAULT_CONTEXT,
    GLOBAL_CONTEXT,
    parse_name,
    qualified_like,
    qualify,
)
from moldau.services.registry.operations.core import Core

LEVEL = "compatibilityLevel"
READWRITE, READONLY, READONLY_OVERRIDE = "READWRITE", "READONLY", "READONLY_OVERRIDE"
IMPORT, FORWARD = "IMPORT", "FORWARD"
MODES = (READWRITE, READONLY, READONLY_OVERRIDE, IMPORT, FORWARD)
_IMPORTING = (IMPORT, FORWARD)


def scopes(subject: str) -> Iterator[str]:
    """The names under which settings for a subject may be kept, nearest first; "" is the default context."""
    parsed = parse_name(subject)
    if parsed.subject:
        yield subject
    yield qualify(parsed.context, "")
    if parsed.context != GLOBAL_CONTEXT:
        yield qualify(GLOBAL_CONTEXT, "")
    if parsed.context not in (DEFAULT_CONTEXT, GLOBAL_CONTEXT):
        yield ""


def config_in_scope(core: Core, subject: str) -> dict[str, Any]:
    """The settings that hold for a subject, always with a level."""
    found: dict[str, Any] | None = None
    level: str | None = None
    for scope in scopes(subject):
        here = core.state.config(scope)
        if here is not None:
            found = here if found is None else found
            level = level or here.get(LEVEL)
    return {**(found or {}), LEVEL: level or default_level(core)}


def default_level(core: Core) -> str:
    """The level where none is set."""
    return core.settings.schema_compatibility_level.upper()


def level_of(core: Core, config: dict[str, Any]) -> Level:
    """The level of settings; the default if a record has one that is not known."""
    try:
        return Level(str(config.get(LEVEL)).upper())
    except ValueError:
        return Level(default_level(core))


def policy_of(config: dict[str, Any]) -> Policy:
    """How strictly JSON Schemas are compared."""
    return Policy.LENIENT if str(config.get("compatibilityPolicy")).upper() == "LENIENT" else Policy.STRICT


def validates_fields(core: Core, config: dict[str, Any]) -> bool:
    """Whether reserved fields are checked."""
    found = config.get("validateFields")
    return core.settings.schema_validate_fields if found is None else bool(found)


def normalizes(core: Core, subject: str, wanted: bool) -> bool:
    """Whether schemas are normalised: by the request, or by the settings."""
    return wanted or config_in_scope(core, subject).get("normalize") is True


def mode_in_scope(core: Core, subject: str) -> str:
    """The mode that holds for a subject."""
    modes = [mode for scope in scopes(subject) if (mode := core.state.mode(scope)) is not None]
    if READONLY_OVERRIDE in modes:
        return READONLY_OVERRIDE
    return modes[0] if modes else READWRITE


def is_importing(mode: str) -> bool:
    """Whether schemas come with the ids and versions that they had elsewhere."""
    return mode in _IMPORTING


def resolve_alias(core: Core, subject: str) -> str:
    """The subject that a name stands for."""
    config = core.state.config(subject) if subject else None
    alias = (config or {}).get("alias")
    return qualified_like(alias, subject) if isinstance(alias, str) and alias else subject
