"""Legal topic names, and names that collide.

Kafka's metric names turn `.` into `_`, so topics whose names differ only in those two collide, and the second
is refused.
"""

import re
from collections.abc import Iterable

from moldau.broker.controller.decision import Refusal
from moldau.common.protocol.errors import ErrorCode

NAME_LENGTH_MAX = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")
METADATA_TOPIC = "__cluster_metadata"


def name_complaint(name: str) -> str | None:
    """Why the topic name is illegal; None when it is legal."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return "Topic name is invalid: '.' or '..' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        limit = NAME_LENGTH_MAX
        return f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {limit}"
    if not _LEGAL.match(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII "
            "alphanumerics, '.', '_' and '-'"
        )
    return None


def check_name(name: str) -> None:
    """Refuse an illegal name."""
    if (complaint := name_complaint(name)) is not None:
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, complaint)


class CollisionIndex:
    """Names by their form with `_` for `.`, filled only when a name with one of the two characters is
    checked."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = names
        self._by_form: dict[str, str] | None = None

    def check(self, name: str) -> None:
        """Refuse a name that collides with another one."""
        if "." not in name and "_" not in name:
            return
        if self._by_form is None:
            self._by_form = {n.replace(".", "_"): n for n in self._names if "." in n or "_" in n}
        other = self._by_form.get(name.replace(".", "_"))
        if other is not None and other != name:
            raise Refusal(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}"
            )

    def add(self, name: str) -> None:
        """Take a new name in."""
        if self._by_form is not None and ("." in name or "_" in name):
            self._by_form[name.replace(".", "_")] = name
