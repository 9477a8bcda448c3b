"""Checks of settings that guard something which Moldau cannot load or does not have: the broker refuses to
start instead of ignoring them, because whoever set them relies on what they keep out.

Also their twins for one listener, and changes of them while the broker runs: a check belongs to its row.
"""

import re
from collections.abc import Sequence

from moldau.common.settings.rows import Guard
from moldau.common.settings.table import Rule

_PYTHON_CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)


def python_class() -> Rule:
    """`module:Class`, a class in Python; a class of Java is refused."""

    def check(value: str) -> str | None:
        if _PYTHON_CLASS.fullmatch(value):
            return None
        return (
            "this is no Python class, and Moldau cannot load classes of Java. Write the policy in Python and "
            "name it module:Class (docs/policies.md), or remove the setting: then nothing is forbidden"
        )

    return check, "module:Class"


def only_known(*known: str, consequence: str, any_package: bool = False) -> Rule:
    """One of the classes or algorithms whose work Moldau does itself; `consequence`: sentences that say what
    to do about another one. `any_package`: `known` are the last parts of names."""
    shown = known or ("nothing",)

    def check(value: str) -> str | None:
        if (value.rpartition(".")[2] if any_package else value) in known:
            return None
        return f"Moldau cannot load it. {consequence}"

    return Guard(check), f"[{', '.join(shown)}]"


def must_be_false(why: str) -> Rule:
    """A feature that is not there."""

    def check(value: bool) -> str | None:
        return why if value else None

    return Guard(check), "[false]"


def must_be_empty(why: str) -> Rule:
    """A list that must name nothing."""

    def check(values: Sequence[str]) -> str | None:
        return why if any(values) else None

    return Guard(check), "[]"


def with_classic(*choices: str) -> Rule:
    """The group protocols; the classic one cannot be switched off, as in Kafka."""
    listed = ", ".join(choices)

    def check(values: Sequence[str]) -> str | None:
        if any(value not in choices for value in values):
            return f"String must be one of: {listed}"
        if len(set(values)) < len(values):
            return "The list must not hold a value twice"
        return None if "classic" in values else "Disabling the 'classic' protocol is not supported."

    return check, f"[{listed}], classic among them"
