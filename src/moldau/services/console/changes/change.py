"""A change: what it asks for, what it will do, and the deed.

    plan = await change.plan(call)                     nothing is changed; the plan has lines and a digest
    await change.carry_out(call, plan)                 only if the digest is still that of what was shown

Between the two the cluster may move on. The plan is therefore made again before the deed, and one that is no
longer what was shown is shown again instead of being carried out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from moldau.services.http.rights import Kind, Operation


class Refused(ValueError):
    """The change cannot be made as it was asked for; the message says why and what to do."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class Field:
    """What a form asks for. `kind`: text, number, choice, area, flag."""

    name: str
    label: str
    kind: str = "text"
    help: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    default: str = ""
    required: bool = False
    must_be_named: bool = False
    """JSON must have it, be it empty: left out, the change would be larger than was meant."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a change will do.

    `lines` are sentences; `warnings` say what cannot be taken back; `table` has rows of what becomes what;
    `work` is what the deed needs, and decides whether a plan is still the same.
    """

    title: str
    lines: Sequence[str]
    button: str
    work: Any
    warnings: Sequence[str] = ()
    columns: Sequence[str] = ()
    table: Sequence[Sequence[Any]] = ()
    dangerous: bool = False
    identity: Any = None
    """What the digest is of instead of `work`, where that has numbers that always grow (the end of a log)."""

    @property
    def digest(self) -> str:
        """Names what would be done. Counts and sizes in the lines may change meanwhile: they are not part."""
        parts = [self.title, self.work if self.identity is None else self.identity]
        text = orjson.dumps(parts, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS)
        return hashlib.sha256(text).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Done:
    """What came of it: a sentence, where to go, and how it can be undone: the id of what was kept, and the
    path that puts it back."""

    text: str
    link: str = ""
    undo: str = ""
    undo_at: str = ""


Values = Mapping[str, str]
Target = Mapping[str, str]
"""What the path names: the topic, the group."""


@dataclass(frozen=True)
class Change:
    """One kind of change, at `path`, which has the target's names in braces."""

    name: str
    path: str
    title: str
    summary: str
    operation: Operation
    kind: Kind
    named_by: str
    """The part of the path or, where there is none of it, of the values, that rights are about; empty: they
    are about the cluster."""
    plan: Callable[[Target, Values], Awaitable[Plan]]
    carry_out: Callable[[Target, Plan], Awaitable[Done]]
    fields: Sequence[Field] = ()
    prefill: Callable[[Target], Awaitable[Values]] | None = None
    back: str = "/"
    """The page to go to without doing it."""
    options: Mapping[str, Any] = field(default_factory=dict)
