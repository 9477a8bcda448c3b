"""JSON Schema: the payload is JSON itself; what is written is checked, what is read is not.

Patterns run on RE2, in time linear to the text: the `re` of Python can be made to hang by a schema. A pattern
that RE2 does not know (look-around, back references) makes its schema unusable for writing, with a sentence.
References are found among the registered ones only; nothing is fetched. Definitions that use definitions
twice can ask for any number of checks of one value; what takes more than STEPS_MAX and some for each byte is
refused. The values of one request share STEPS_MAX (`Checking`), and end with it. Steps differ: a keyword's
lists and a value's names count by their length, and what all the same takes CHECKING_SECONDS_MAX is refused.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from moldau.common.core.patterns import Pattern, PatternError, compile_pattern
from moldau.schemas.effort import Abandoned
from moldau.schemas.schema import JsonValue, ParsedSchema
from moldau.schemas.serde import SerdeError

STEPS_MAX = 1_000_000
"""Keywords that are checked for one value however short it is: ten seconds of work."""
_STEPS_PER_BYTE = 2
"""An array of numbers, each of a type and between two bounds, takes 1.5; small records take 0.3."""
CHECKING_SECONDS_MAX = 30.0
"""Of the processor's time, for all values of a request: 16 MiB of small records take some 20."""
_STEPS_ASKED = 16
"""So few, as one that fails may print a value of megabytes."""
_PARTS_PER_STEP_LOG2 = 6
"""Of a keyword's list or object: to compare with one value of an enum takes 0.1 us, a step 3 to 9."""
_ITEMS_PER_STEP_LOG2 = 2
"""Of a value: to match a name with a pattern takes 1 us."""
_ITEMS_AT_A_TIME = 1024
_PATTERNS_KEPT = 200
_PATTERN_BYTES_MAX = 1 << 20


class JsonSchemaSerde:
    """Codes values of one JSON Schema."""

    message_indexes = None

    def __init__(self, validator: Any) -> None:
        self._validator = validator

    def from_json(self, value: JsonValue) -> bytes:
        """Return JSON text of a value that fits the schema. SerdeError."""
        try:
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        except (ValueError, RecursionError) as bad:
            raise SerdeError(f"the value is no JSON: {bad}") from None
        if _steps.checking is None:
            _steps.taken, _steps.allowed = 0, STEPS_MAX
        _steps.allowed += _STEPS_PER_BYTE * len(text)
        try:
            problem = next(self._validator.iter_errors(value), None)
        except RecursionError:
            raise SerdeError("the value is nested too deeply, or the schema refers to itself") from None
        except _no_reference() as missing:
            raise SerdeError(
                f"the schema refers to {missing.ref!r}, which is not registered with it"
            ) from None
        except (ArithmeticError, AttributeError, TypeError) as wrong:
            # jsonschema's own checks, of keywords and numbers that nobody thought of
            raise SerdeError(f"the value cannot be checked with the schema: {wrong}") from None
        if problem is not None:
            message = problem.message if len(problem.message) <= 300 else problem.message[:297] + "..."
            path = problem.json_path.removeprefix("$").removeprefix(".")
            raise SerdeError(f"{path}: {message}" if path else message)
        return text

    def to_json(self, payload: bytes) -> JsonValue:
        """Return a payload's value. SerdeError."""
        try:
            return json.loads(payload, parse_constant=_refuse)
        except (ValueError, RecursionError) as problem:
            raise SerdeError(f"it is no JSON: {problem}") from None


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def make(parsed: ParsedSchema, indexes: Sequence[int] | None = None) -> JsonSchemaSerde:
    """Compile the coder of a schema."""
    import jsonschema
    from jsonschema_specifications import REGISTRY as SPECIFICATIONS
    from referencing import Registry, Resource
    from referencing.jsonschema import DRAFT7

    schema = json.loads(parsed.canonical)
    registry: Registry[Any] = SPECIFICATIONS  # The drafts' own schemas; others are only those referenced.
    for name, text in parsed.dependencies.items():
        contents = json.loads(text)
        resource = Resource.from_contents(contents, default_specification=DRAFT7)
        registry = registry.with_resource(name, resource)
        if identity := resource.id():
            registry = registry.with_resource(identity, resource)
    try:
        base = jsonschema.validators.validator_for(schema, default=jsonschema.Draft7Validator)
        return JsonSchemaSerde(_safe(base)(schema, registry=registry))
    except (AttributeError, TypeError) as wrong:  # "$schema": 5
        raise SerdeError(f"values cannot be checked with the schema: {wrong}") from None


def _no_reference() -> Any:
    from jsonschema.exceptions import _WrappedReferencingError

    return _WrappedReferencingError


@lru_cache(maxsize=16)
def _safe(base: Any) -> Any:
    """A validator whose patterns cannot hang, and whose `uniqueItems` is not quadratic."""
    from attrs import fields
    from jsonschema.validators import extend, validator_for

    keywords = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "uniqueItems": _unique_items,
        "unevaluatedProperties": _unevaluated_properties,
    }
    checks = {name: _counted(keywords.get(name, check)) for name, check in base.VALIDATORS.items()}
    safe: Any = extend(base, checks)
    names = [(field.alias, field.name) for field in fields(safe) if field.init]

    def evolve(self: Any, **changes: Any) -> Any:
        """As jsonschema's own, but an inner schema that names a draft ("$schema") stays safe too."""
        wanted = validator_for(changes.setdefault("schema", self.schema), default=safe)
        for alias, name in names:
            if alias not in changes:
                changes[alias] = getattr(self, name)
        return (safe if wanted is safe else _safe(wanted))(**changes)

    safe.evolve = evolve
    return safe


class _Steps(threading.local):
    taken = 0
    allowed = STEPS_MAX
    checking: Checking | None = None


_steps = _Steps()


class Checking:
    """What goes around work on the values of one request, in the thread that does it: together they take at
    most STEPS_MAX, and some for each of their bytes, and CHECKING_SECONDS_MAX. Abandoned is raised where
    `is_abandoned` says so, which is asked now and then.
    """

    def __init__(
        self, is_abandoned: Callable[[], bool], clock: Callable[[], float] = time.thread_time
    ) -> None:
        """`clock` tells seconds; those of the thread's processor time are the same on a busy machine."""
        self._is_abandoned = is_abandoned
        self._clock = clock
        self.asked_at_steps = 0
        self._ends_at_seconds = 0.0

    def __enter__(self) -> None:
        self.asked_at_steps = _STEPS_ASKED
        self._ends_at_seconds = self._clock() + CHECKING_SECONDS_MAX
        _steps.taken, _steps.allowed, _steps.checking = 0, STEPS_MAX, self

    def __exit__(self, *failure: object) -> None:
        _steps.checking = None

    def ask(self, taken_steps: int) -> None:
        """Whether to go on, and when to ask again. Abandoned; SerdeError, also at every step after it."""
        if self._is_abandoned():
            raise Abandoned
        if self._clock() >= self._ends_at_seconds:
            raise SerdeError(
                f"checking the request's values with the schema takes more than {CHECKING_SECONDS_MAX:g} "
                "seconds: send them in several requests"
            )
        self.asked_at_steps = taken_steps + _STEPS_ASKED


def _counted(check: Callable[..., Any]) -> Callable[..., Any]:
    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        _take(1 + (len(value) >> _PARTS_PER_STEP_LOG2) if isinstance(value, (list, dict)) else 1)
        return check(validator, value, instance, schema)

    return counted


def _take(count: int) -> None:
    """Take steps. SerdeError, Abandoned."""
    _steps.taken += count
    if _steps.taken > _steps.allowed:
        raise SerdeError(f"checking the value takes more than {_steps.allowed} steps")
    checking = _steps.checking
    if checking is not None and _steps.taken >= checking.asked_at_steps:
        checking.ask(_steps.taken)


@lru_cache(maxsize=_PATTERNS_KEPT)
def _compiled(pattern: str) -> Pattern:
    try:
        return compile_pattern(pattern, program_bytes_max=_PATTERN_BYTES_MAX)
    except PatternError:
        raise SerdeError(
            f"the schema's pattern {pattern[:100]!r} cannot be checked: it uses what RE2 does not have "
            "(look-around, back references)"
        ) from None


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if validator.is_type(instance, "string") and not _compiled(pattern).search(instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, properties: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, subschema in properties.items():
        found = _compiled(pattern)
        _take(len(instance) >> _ITEMS_PER_STEP_LOG2)
        for name, value in instance.items():
            if found.search(name):
                yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if not validator.is_type(instance, "object"):
        return
    known = schema.get("properties", {})
    extras = [name for name in instance if name not in known]
    for pattern in schema.get("patternProperties", {}):
        found = _compiled(pattern)
        _take(len(extras) >> _ITEMS_PER_STEP_LOG2)
        extras = [name for name in extras if not found.search(name)]
    if validator.is_type(allowed, "object"):
        for name in extras:
            yield from validator.descend(instance[name], allowed, path=name)
    elif not allowed and extras:
        yield ValidationError(f"the schema has no property {', '.join(map(repr, extras[:5]))}")


def _unevaluated_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if not validator.is_type(instance, "object"):
        return
    for name in instance.keys() - _evaluated(validator, instance, schema):
        if allowed is False:
            yield ValidationError(f"the schema has no property {name!r}")
        else:
            yield from validator.descend(instance[name], allowed, path=name)


_IN_PLACE = ("allOf", "anyOf", "oneOf")


def _evaluated(validator: Any, instance: Any, schema: Any) -> set[str]:
    """The properties that a schema, and what it applies in the same place, look at."""
    if not isinstance(schema, dict):
        return set()
    known = {name for name in schema.get("properties", {}) if name in instance}
    for pattern in schema.get("patternProperties", {}):
        _take(len(instance) >> _ITEMS_PER_STEP_LOG2)
        known |= {name for name in instance if _compiled(pattern).search(name)}
    if "additionalProperties" in schema:
        return set(instance)
    inner = [each for word in _IN_PLACE for each in schema.get(word, ())]
    inner += [schema[word] for word in ("then", "else", "if") if word in schema]
    for name, each in schema.get("dependentSchemas", {}).items():
        if name in instance:
            inner.append(each)
    for each in inner:
        if validator.evolve(schema=each).is_valid(instance):
            known |= _evaluated(validator.evolve(schema=each), instance, each)
            if isinstance(each, dict) and "unevaluatedProperties" in each:
                return set(instance)
    for word in ("$ref", "$dynamicRef"):
        if word in schema:
            resolved = validator._resolver.lookup(schema[word])
            inside = validator.evolve(schema=resolved.contents, _resolver=resolved.resolver)
            known |= _evaluated(inside, instance, resolved.contents)
    return known


def _unique_items(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if wanted and validator.is_type(instance, "array"):
        texts: set[str] = set()
        for start in range(0, len(instance), _ITEMS_AT_A_TIME):
            items = instance[start : start + _ITEMS_AT_A_TIME]
            _take(len(items) >> _ITEMS_PER_STEP_LOG2)
            texts.update(json.dumps(_number_as_float(item), sort_keys=True) for item in items)
        if len(texts) != len(instance):
            yield ValidationError("the array has an item twice")


def _number_as_float(item: Any) -> Any:
    """1 and 1.0 are the same number in JSON Schema; true is not 1."""
    if isinstance(item, bool):
        return item
    if isinstance(item, float) and item.is_integer():
        return int(item)
    if isinstance(item, list):
        return [_number_as_float(each) for each in item]
    if isinstance(item, dict):
        return {key: _number_as_float(each) for key, each in item.items()}
    return item
