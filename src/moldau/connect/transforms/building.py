"""The chain of a connector's settings.

    transforms=mask,route                        transforms.mask.type=...MaskField$Value
    transforms.mask.predicate=isOrder            transforms.mask.negate=true
    predicates=isOrder                           predicates.isOrder.type=...TopicNameMatches

`rows_of` are the settings' rows for `validate`; `problems_of` what is wrong across them.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from moldau.connect.errors import ConnectError
from moldau.connect.finding import find
from moldau.connect.plugins import Kind
from moldau.connect.settings import REQUIRED, Importance, Setting, SettingType, Width
from moldau.connect.transform import Predicate, Transform
from moldau.connect.transforms.chain import Chain, Stage
from moldau.connect.transforms.own import FunctionTransform
from moldau.connect.typed_settings import typed

TRANSFORMS, PREDICATES = "transforms", "predicates"
_WORDS = {TRANSFORMS: "transformation", PREDICATES: "predicate"}
_OWN = ("type", "predicate", "negate")
"""Of a transform, besides its class's settings."""


def names_of(config: Mapping[str, str], what: str) -> list[str]:
    """The aliases that `transforms` or `predicates` lists."""
    return [each.strip() for each in config.get(what, "").split(",") if each.strip()]


def inner_settings(config: Mapping[str, str], what: str, name: str) -> dict[str, str]:
    """What stands behind `transforms.NAME.`, without what the chain itself needs."""
    prefix = f"{what}.{name}."
    own = _OWN if what == TRANSFORMS else _OWN[:1]
    found = {key.removeprefix(prefix): text for key, text in config.items() if key.startswith(prefix)}
    return {key: text for key, text in found.items() if key not in own}


def chain_of(config: Mapping[str, str]) -> Chain:
    """The configured chain. ConnectError with all that is wrong."""
    problems = problems_of(config)
    if problems:
        raise ConnectError("; ".join(f"{key}: {each}" for key, found in problems.items() for each in found))
    predicates = {name: _made(config, PREDICATES, name) for name in names_of(config, PREDICATES)}
    stages = []
    for name in names_of(config, TRANSFORMS):
        prefix = f"{TRANSFORMS}.{name}."
        predicate = config.get(f"{prefix}predicate") or None
        stages.append(
            Stage(
                name,
                _made(config, TRANSFORMS, name),
                config[f"{prefix}type"].strip(),
                None if predicate is None else predicates[predicate.strip()],
                config.get(f"{prefix}negate", "false").strip().lower() == "true",
            )
        )
    return Chain(stages)


def problems_of(config: Mapping[str, str]) -> dict[str, list[str]]:
    """Sentences by the name of the setting they are about; empty: the chain can be made."""
    found: dict[str, list[str]] = {}
    known = names_of(config, PREDICATES)
    for what in (TRANSFORMS, PREDICATES):
        names = names_of(config, what)
        if len(set(names)) < len(names):
            found[what] = [
                f"Invalid value {config[what]} for configuration {what}: Duplicate alias provided."
            ]
        for name in dict.fromkeys(names):
            found |= _problems(config, what, name)
            predicate = config.get(f"{TRANSFORMS}.{name}.predicate", "").strip()
            if what == TRANSFORMS and predicate and predicate not in known:
                key = f"{TRANSFORMS}.{name}.predicate"
                reason = f"Predicate not found: '{predicate}': it is not one of predicates"
                found[key] = [f"Invalid value {predicate} for configuration {key}: {reason}"]
            if what == TRANSFORMS and not predicate and f"{TRANSFORMS}.{name}.negate" in config:
                key = f"{TRANSFORMS}.{name}.negate"
                found[key] = [f"{key} has no effect without {TRANSFORMS}.{name}.predicate: give one"]
    return found


def _problems(config: Mapping[str, str], what: str, name: str) -> dict[str, list[str]]:
    prefix = f"{what}.{name}."
    try:
        kind = class_of(config, what, name)
        if not _is_class(kind):
            _made(config, what, name)
            return {}
        values, wrong = typed(kind.settings, inner_settings(config, what, name))
        if wrong:
            return {
                prefix + key: [
                    each.replace(f"configuration {key}", f"configuration {prefix}{key}") for each in found
                ]
                for key, found in wrong.items()
            }
        made = kind()
        made.configure(values)
        if isinstance(made, Transform):
            made.close()
    except ConnectError as error:
        return {f"{prefix}type": [str(error)]}
    return {}


def class_of(config: Mapping[str, str], what: str, name: str) -> Any:
    """The class (or function) of a transform or predicate. ConnectError."""
    key = f"{what}.{name}.type"
    text = config.get(key, "").strip()
    if not text:
        raise ConnectError(f'Missing required configuration "{key}" which has no default value.')
    found = find((Kind.TRANSFORM if what == TRANSFORMS else Kind.PREDICATE,), text)
    base = Transform if what == TRANSFORMS else Predicate
    is_right = issubclass(found, base) if _is_class(found) else what == TRANSFORMS
    if not is_right:
        raise ConnectError(f"Invalid value {text} for configuration {key}: it is no {_WORDS[what]}")
    return found


def _is_class(found: Any) -> bool:
    return inspect.isclass(found)


def _made(config: Mapping[str, str], what: str, name: str) -> Any:
    kind = class_of(config, what, name)
    given = inner_settings(config, what, name)
    if not _is_class(kind):
        function = FunctionTransform(kind)
        function.configure(given)
        return function
    values, _ = typed(kind.settings, given)
    made = kind()
    made.configure(values)
    return made


def rows_of(config: Mapping[str, str]) -> Sequence[Setting]:
    """The rows of all settings behind `transforms.` and `predicates.` of these aliases, in Kafka's groups."""
    made: list[Setting] = []
    for what, title in ((TRANSFORMS, "Transforms"), (PREDICATES, "Predicates")):
        for name in dict.fromkeys(names_of(config, what)):
            group, prefix = f"{title}: {name}", f"{what}.{name}."
            rows = [_row(f"Class for the '{name}' {_WORDS[what]}.", "type", SettingType.CLASS, REQUIRED)]
            if what == TRANSFORMS:
                rows += [
                    _row("The alias of a predicate that says which records it sees.", "predicate"),
                    _row("Whether it sees the other records instead.", "negate", SettingType.BOOLEAN, False),
                ]
            try:
                kind = class_of(config, what, name)
                rows += kind.settings if _is_class(kind) else ()
            except ConnectError:
                pass
            made += [
                replace(row, name=prefix + row.name, group=group, order=order)
                for order, row in enumerate(rows)
            ]
    return made


def _row(doc: str, name: str, kind: SettingType = SettingType.STRING, default: Any = "") -> Setting:
    importance = Importance.HIGH if name == "type" else Importance.MEDIUM
    width = Width.LONG if name == "type" else Width.MEDIUM
    return Setting(name, kind, doc, default, importance, width=width)
