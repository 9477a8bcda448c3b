"""Kafka's settings without effect, read from without_effect.tsv: accepted, checked, stored and described, and
read by no code.

A line is a setting, its columns separated by tabs (text/tab-separated-values, without quotes):

    settings | name | type | default | valid | update mode | default from | documentation

`settings` is the table that the row belongs to: broker, topic or group. A default of `unset` is none, an
empty one the empty text or list. `valid` is written as docs/settings.md shows it. A setting that would
protect something is not in this file, because the broker refuses to start with it (guards.py).
"""

from functools import cache
from pathlib import Path

from moldau.common.settings.checks import at_least, between, one_of, one_of_any_case
from moldau.common.settings.rows import Kind, Scope, Setting, parsed
from moldau.common.settings.table import Rule

_FILE = Path(__file__).with_name("without_effect.tsv")
_ANY_CASE = "(case insensitive) "
_KINDS = {kind.name.lower(): kind for kind in Kind}
_SCOPES = {scope.label: scope for scope in Scope} | {"": Scope.READ_ONLY}


def without_effect(settings: str) -> dict[str, Setting]:
    """The rows of one table (`broker`, `topic`, `group`), by attribute."""
    return {name.replace(".", "_"): _setting(columns) for of, name, *columns in _lines() if of == settings}


@cache
def _lines() -> list[list[str]]:
    """The lines below the heading, each taken apart."""
    return [line.split("\t") for line in _FILE.read_text(encoding="utf-8").splitlines()[1:]]


def _setting(columns: list[str]) -> Setting:
    """A row of the columns behind the name."""
    kind_name, default, valid, scope, synonyms, documentation = columns
    kind = _KINDS[kind_name]
    check, shown = _rule(kind, valid) if valid else (None, "")
    return Setting(
        kind,
        None if default == "unset" else parsed(kind, default),
        documentation,
        check,
        shown,
        _SCOPES[scope],
        tuple(synonyms.split(",")) if synonyms else (),
        effective=False,
    )


def _rule(kind: Kind, valid: str) -> Rule:
    """`[1,...]`, `[1,...,10]`, `[INFO, DEBUG]` or `(case insensitive) [on, off]` as a check."""
    if kind is Kind.STRING:
        choices = valid.removeprefix(_ANY_CASE)[1:-1].split(", ")
        return one_of_any_case(*choices) if valid.startswith(_ANY_CASE) else one_of(*choices)
    low, _, high = valid[1:-1].partition(",...")
    return between(int(low), int(high[1:])) if high else at_least(int(low))
