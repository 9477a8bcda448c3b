"""A connector's configuration, checked: each setting by its row, then what contradicts what.

    common rows            name, tasks.max, …            ┐
    rows of the runtime    errors.*, transaction.*, …    │  each by its type, default, check
    transforms, predicates one block an alias            │
    converters             behind key.converter. …       │
    the connector's own                                  ┘
    together               topics and topics.regex, a sink's dead letters, a predicate nobody defined, …
    the connector's check  only when nothing is wrong so far: it may ask the other system

Values that came from a config provider are shown as the reference that was given, never as what it stands
for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import isclass
from typing import Any

from moldau.connect.errors import ConnectError
from moldau.connect.finding import find
from moldau.connect.plugins import Kind
from moldau.connect.settings import REQUIRED, Importance, Setting, SettingType
from moldau.connect.sink import Sink
from moldau.connect.source import Source
from moldau.connect.transforms.building import problems_of
from moldau.connect.typed_settings import typed_value
from moldau.services.connect.runtime.hiding import filled_in, without
from moldau.services.connect.runtime.rows import ERROR_ROWS, RESTART_ROWS, SINK_ROWS, SOURCE_ROWS
from moldau.services.connect.validation.common_rows import (
    COMMON_ROWS,
    SOURCE_GROUPS,
    TOPIC_CREATION,
    creation_groups,
    creation_rows,
)
from moldau.services.connect.validation.infos import HIDDEN, Infos, Value, text_of
from moldau.services.connect.validation.overrides import OverridePolicy
from moldau.services.connect.validation.together import contradictions

CONVERTERS = ((Kind.CONVERTER, "key"), (Kind.CONVERTER, "value"), (Kind.HEADER_CONVERTER, "header"))


@dataclass(frozen=True, slots=True)
class Given:
    """A configuration as it was given, and with the references to secrets replaced."""

    raw: Mapping[str, str]
    resolved: Mapping[str, str]


def connector_kind(name: str) -> type[Source] | type[Sink]:
    """The class that `connector.class` selects. ConnectError."""
    found = find([Kind.SOURCE, Kind.SINK], name)
    if not (isclass(found) and issubclass(found, (Source, Sink))):
        raise ConnectError(f"{name} is neither a source nor a sink connector")
    return found


def validate(given: Given, policy: OverridePolicy) -> Infos:
    """What is right and wrong. ConnectError: `connector.class` is missing or selects nothing.

    May wait for the other system: call it in a thread.
    """
    secrets = filled_in(given.raw, given.resolved)
    try:
        infos = _validated(given, policy)
    except ConnectError as problem:
        raise ConnectError(without(secrets, str(problem))) from None
    infos.hide(secrets)
    return infos


def _validated(given: Given, policy: OverridePolicy) -> Infos:
    name = given.resolved.get("connector.class")
    if not name:
        raise ConnectError("Connector config contains no connector type")
    kind = connector_kind(name)
    infos = Infos(name)
    _add(infos, given, COMMON_ROWS)
    is_sink = issubclass(kind, Sink)
    for row in (*(SINK_ROWS if is_sink else (*SOURCE_ROWS, SOURCE_GROUPS)), *ERROR_ROWS, *RESTART_ROWS):
        _add(infos, given, [row])
    if not is_sink:
        for group in creation_groups(given.resolved):
            _add(infos, given, creation_rows(group), f"topic.creation.{group}.", f"{TOPIC_CREATION}: {group}")
    _add_steps(infos, given)
    for what, side in CONVERTERS:
        _add_converter(infos, given, what, side)
    values = _add(infos, given, kind.settings)
    for value in policy.values(given.raw):
        infos.add(value)
    _add_chain(infos, given)
    for at, sentence in contradictions(given.resolved, kind):
        infos.blame(at, sentence)
    if not infos.error_count:
        _add_own(infos, kind, {**given.resolved, **values})
    return infos


def _add_chain(infos: Infos, given: Given) -> None:
    """What keeps the chain of transforms from being made, where it was not said by a row."""
    try:
        problems = problems_of(given.resolved)
    except Exception as failure:  # a class of anybody's
        infos.blame("transforms", f"a transform could not be made: {failure}")
        return
    for name, sentences in problems.items():
        if not infos.is_blamed(name):
            for sentence in sentences:
                infos.blame(name, sentence, "transforms")


def _add_own(infos: Infos, kind: type[Source] | type[Sink], values: Mapping[str, Any]) -> None:
    try:
        problems: Mapping[str, Sequence[str]] = kind().check(values)
    except Exception as failure:  # a class of anybody's: its mistake is an answer, not this service's
        infos.blame("connector.class", f"{kind.__name__} could not check its settings: {failure}")
        return
    for name, sentences in problems.items():
        for sentence in sentences:
            infos.blame(name, sentence)


def _add(
    infos: Infos,
    given: Given,
    rows: Sequence[Setting],
    prefix: str = "",
    group: str | None = None,
) -> dict[str, Any]:
    """Rows with what is given for them; returns their values."""
    values = {}
    for order, row in enumerate(rows, 1):
        name = prefix + row.name
        text = given.resolved.get(name)
        value, wrong = typed_value(row, text)
        values[row.name] = value
        shown = text_of(value, row.type)
        raw = given.raw.get(name)
        if raw is not None and raw != text:
            shown = raw  # a reference, and not the secret
            wrong = wrong if wrong is None else wrong.replace(str(text), HIDDEN)
        elif wrong is not None:
            shown = HIDDEN if row.type is SettingType.PASSWORD and text else text
        infos.add(
            Value(
                row,
                name,
                shown,
                _recommended(row, given.resolved),
                [] if wrong is None else [wrong.replace(f'"{row.name}"', f'"{name}"')],
                group or row.group,
                row.order if row.order >= 0 else order,
            )
        )
    return values


def _recommended(row: Setting, given: Mapping[str, str]) -> Sequence[str]:
    if row.recommend is not None:
        return [str(each) for each in row.recommend(given)]
    return list(row.choices)


def _add_steps(infos: Infos, given: Given) -> None:
    """The blocks of transforms and predicates, an alias each."""
    for what, kind in (("transforms", Kind.TRANSFORM), ("predicates", Kind.PREDICATE)):
        for alias in _listed(given.resolved.get(what, "")):
            prefix = f"{what}.{alias}."
            group = f"{what.capitalize()}: {alias}"
            kind_row = Setting(
                "type",
                SettingType.CLASS,
                f"Which {kind.value} this is: a class, or module:function.",
                REQUIRED,
                Importance.HIGH,
                group,
            )
            _add(infos, given, [kind_row], prefix, group)
            if kind is Kind.TRANSFORM:
                _add(infos, given, _CHOICE_ROWS, prefix, group)
            _add_plugin(infos, given, kind, f"{prefix}type", prefix, group)


_CHOICE_ROWS = (
    Setting(
        "predicate",
        SettingType.STRING,
        "The alias of a predicate: the transform is applied to the records it is true for.",
        None,
        Importance.MEDIUM,
    ),
    Setting(
        "negate",
        SettingType.BOOLEAN,
        "Apply it to the records that the predicate is false for.",
        False,
        Importance.MEDIUM,
    ),
)


def _add_converter(infos: Infos, given: Given, kind: Kind, side: str) -> None:
    if given.resolved.get(f"{side}.converter"):
        group = f"{side.capitalize()} converter"
        _add_plugin(infos, given, kind, f"{side}.converter", f"{side}.converter.", group)


def _add_plugin(infos: Infos, given: Given, kind: Kind, at: str, prefix: str, group: str) -> None:
    """The settings of the plugin that `at` names."""
    name = given.resolved.get(at)
    if not name:
        return
    try:
        found = find([kind], name)
    except ConnectError as problem:
        infos.blame(at, f"Invalid value {name} for configuration {at}: {problem}")
        return
    _add(infos, given, getattr(found, "settings", ()), prefix, group)


def _listed(text: str) -> list[str]:
    found: list[str] = []
    for part in text.split(","):
        if part.strip() and part.strip() not in found:
            found.append(part.strip())
    return found
