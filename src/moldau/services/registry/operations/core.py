"""What all operations share: state, parser and settings, versions by number, pages of lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from moldau.services.registry.parsing import Parser
from moldau.services.registry.problems import Code, RegistryProblem
from moldau.services.registry.settings import RegistrySettings
from moldau.services.registry.state.body import Version
from moldau.services.registry.state.state import State

_INT32_MAX = 2**31 - 1
ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class Core:
    """The state, and what there is to understand it."""

    state: State
    parser: Parser
    settings: RegistrySettings


def parse_version_number(text: str) -> int | None:
    """A version in a path; None is the latest. RegistryProblem (INVALID_VERSION)."""
    if text in ("latest", "-1"):
        return None
    if text.isascii() and text.isdigit() and 1 <= int(text[:11]) <= _INT32_MAX:
        return int(text)
    raise RegistryProblem(
        Code.INVALID_VERSION,
        f"The specified version '{text}' is not a valid version id. "
        'Allowed values are between [1, 2^31-1] and the string "latest"',
    )


def find_version(core: Core, subject: str, version: int | None, *, deleted: bool) -> Version | None:
    """A version; None as version is the latest that is not deleted."""
    if version is None:
        return core.state.latest(subject)
    found = core.state.get(subject, version)
    return found if found is not None and (deleted or not found.deleted) else None


def subject_not_found(subject: str) -> RegistryProblem:
    """The refusal for a subject that is not there."""
    return RegistryProblem(Code.SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")


def version_not_found(version: int | None) -> RegistryProblem:
    """The refusal for a version that is not there."""
    shown = -1 if version is None else version
    return RegistryProblem(Code.VERSION_NOT_FOUND, f"Version {shown} not found.")


def page(items: list[ItemT], offset: int, limit: int, default: int, most: int) -> list[ItemT]:
    """A part of a list; a limit that is not between 1 and `most` is the default."""
    count = limit if 0 < limit <= most else default
    start = max(offset, 0)
    return items[start : start + count]
