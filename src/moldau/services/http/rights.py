"""Who may do what: a file of lines `WHO OPERATIONS KIND:NAME`.

    alice          read,write   subject:orders-*      # a name that ends in * is a prefix
    role:platform  all          *                     # everything
    *              read         subject:*             # whoever is let in
    User:bob       configure    cluster:registry      # `User:` may be written or left out

Operations: read, write, delete, configure (levels, modes, settings), all. Kinds: subject, topic, group,
cluster, connector. Without the file, whoever is let in may do everything; with it, only what a line
allows. It is read again when it changes.
"""

import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import takewhile
from typing import NamedTuple

from moldau.common.settings.rows import SettingError
from moldau.services.http.context import Principal
from moldau.services.http.problems import HttpProblem
from moldau.services.http.watched_file import WatchedFile

FORBIDDEN = 40301
"""Confluent's code where a principal is denied an operation."""


class Operation(StrEnum):
    """What is done."""

    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    CONFIGURE = "configure"


class Kind(StrEnum):
    """What it is done to."""

    SUBJECT = "subject"
    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    CONNECTOR = "connector"


class Right(NamedTuple):
    """One line: `kind` None is every kind, `name` an exact name or, with `is_prefix`, how names begin."""

    who: str
    is_role: bool
    operations: frozenset[Operation]
    kind: Kind | None
    name: str
    is_prefix: bool

    def is_for(self, principal: Principal) -> bool:
        """Whether this principal is meant."""
        if self.is_role:
            return self.who in principal.roles
        return self.who in ("*", principal.name)

    def covers(self, name: str) -> bool:
        """Whether this name is meant."""
        return name.startswith(self.name) if self.is_prefix else name == self.name


class Rights:
    """All lines. Without any file: `Rights.all()`."""

    def __init__(self, rights: Sequence[Right] | None, file: WatchedFile[list[Right]] | None = None) -> None:
        """None: everybody may do everything. `file`: where the rights are, if they may change."""
        self._rights = rights
        self._file = file

    @classmethod
    def all(cls) -> "Rights":
        """Everybody may do everything."""
        return cls(None)

    @classmethod
    def from_file(cls, path: str | None, now_seconds: Callable[[], float] = time.monotonic) -> "Rights":
        """The rights of a file, all without one; they change with the file. SettingError."""
        if not path:
            return cls.all()
        name = "moldau.http.rights.file"
        file = WatchedFile(name, path, lambda text: parse_rights(text, path), now_seconds)
        return cls(file.get(), file)

    @property
    def unlimited(self) -> bool:
        """Whether nothing is ever refused."""
        return self._rights is None

    def may(self, principal: Principal, operation: Operation, kind: Kind, name: str) -> bool:
        """Whether a line allows it."""
        return self.filter(principal, operation, kind)(name)

    def filter(self, principal: Principal, operation: Operation, kind: Kind) -> Callable[[str], bool]:
        """For lists: whether a line allows it, by name."""
        if self._rights is None:
            return lambda name: True
        rights = self._rights if self._file is None else self._file.get()
        fitting = [
            right
            for right in rights
            if operation in right.operations and right.kind in (None, kind) and right.is_for(principal)
        ]
        return lambda name: any(right.covers(name) for right in fitting)

    def check(self, principal: Principal, operation: Operation, kind: Kind, name: str) -> None:
        """HttpProblem 40301 if no line allows it."""
        if not self.may(principal, operation, kind, name):
            raise HttpProblem(
                FORBIDDEN,
                f"User:{principal.name} is denied operation {operation.capitalize()} on "
                f"{kind.capitalize()}: {name}",
            )


def parse_rights(text: str, path: str) -> list[Right]:
    """The lines of a file. SettingError names the line that is wrong."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = list(takewhile(lambda word: not word.startswith("#"), line.split()))
        if words:
            try:
                found.append(_right(words))
            except ValueError as error:
                raise SettingError(
                    "moldau.http.rights.file", f"moldau.http.rights.file={path}, line {number}: {error}"
                ) from None
    return found


def _right(words: Sequence[str]) -> Right:
    if len(words) != 3:
        raise ValueError("write WHO OPERATIONS KIND:NAME, for example: alice read,write subject:orders-*")
    who, operations, what = words
    is_role = who.startswith("role:")
    return Right(
        who.removeprefix("role:").removeprefix("User:"),
        is_role,
        _operations(operations),
        *_resource(what),
    )


def _operations(text: str) -> frozenset[Operation]:
    if text == "all":
        return frozenset(Operation)
    try:
        return frozenset(Operation(each) for each in text.split(","))
    except ValueError:
        raise ValueError(f"{text} is none of all, {', '.join(Operation)}") from None


def _resource(text: str) -> tuple[Kind | None, str, bool]:
    if text == "*":
        return None, "", True
    kind, colon, name = text.partition(":")
    if not colon or not name or kind not in tuple(Kind):
        raise ValueError(f"{text} is not KIND:NAME; kinds are {', '.join(Kind)}, and * is everything")
    return Kind(kind), name.removesuffix("*"), name.endswith("*")
