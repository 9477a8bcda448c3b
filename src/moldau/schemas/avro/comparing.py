"""Whether a reader with one Avro schema can read what was written with another: the rules of the
specification ("schema resolution"), found and told as Avro's Java library does, whose messages Confluent's
registry passes on.

A pair of types that is met again while it is compared is taken for compatible: if it is not, that is found
where it was met first. Each pair is compared once, so the result is of the size of the schemas, not of their
paths. The walk is a stack of generators: a chain of ten thousand records is no deep recursion.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from moldau.schemas.avro.tree import NO_DEFAULT, AvroField, AvroType
from moldau.schemas.effort import step
from moldau.schemas.schema import Difference, TooComplex

PAIRS_MAX = 200_000
"""More pairs of types than these are not compared: a second of work. Schemas of people have thousands."""
DIFFERENCES_MAX = 1_000
"""Of a type. Types that are used in many ways would otherwise multiply what is told about them."""
STEPS_MAX = 1_000
"""Of a place: of longer ones, the last steps are told."""

_PROMOTIONS = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "bytes": ("string",),
    "string": ("bytes",),
}
_SENTENCES = {
    "FIXED_SIZE_MISMATCH": "The size of FIXED type field at path '{path}' in the {{reader}} schema does not "
    "match with the {{writer}} schema",
    "TYPE_MISMATCH": "The type (path '{path}') of a field in the {{reader}} schema does not match with the "
    "{{writer}} schema",
    "NAME_MISMATCH": "The name of the schema has changed (path '{path}')",
    "MISSING_ENUM_SYMBOLS": "The {{reader}} schema is missing enum symbols '{what}' at path '{path}' in the "
    "{{writer}} schema",
    "MISSING_UNION_BRANCH": "The {{reader}} schema is missing a type inside a union field at path '{path}' "
    "in the {{writer}} schema",
    "READER_FIELD_MISSING_DEFAULT_VALUE": "The field '{what}' at path '{path}' in the {{reader}} schema "
    "has no default value and is missing in the {{writer}} schema",
    "UNEXPECTED_ERROR": "Unexpected exception during compatibility check: Reader record field {what} at path "
    "'{path}' matches multiple fields in writer record schema",
}
"""Confluent's sentences, which programs search for."""

_Path = tuple["_Path", str] | None
"""A place as its last step and the place before, so that going on takes no copy; None is the root."""


class _Reason(NamedTuple):
    """A difference that is not in words yet."""

    kind: str
    path: _Path
    what: str


_Found = tuple["_Reason | _Found", ...]
"""Reasons, and what was found for inner pairs, which may be shared; never an empty tuple within another."""


class _Pair(NamedTuple):
    """A comparison that another waits for."""

    reader: AvroType
    writer: AvroType
    path: _Path


_Work = Generator[_Pair, _Found, _Found]


def compare(reader: AvroType, writer: AvroType) -> list[Difference]:
    """What keeps `reader` from reading what `writer` wrote. TooComplex for schemas beyond all limits."""
    return [_difference(each) for each in _flat(_Comparison().run(_Pair(reader, writer, None)))]


def _flat(found: _Found) -> list[_Reason]:
    """The reasons in order, the first DIFFERENCES_MAX of them."""
    reasons: list[_Reason] = []
    waiting: list[_Reason | _Found] = [found]
    while waiting and len(reasons) < DIFFERENCES_MAX:
        each = waiting.pop()
        if isinstance(each, _Reason):
            reasons.append(each)
        else:
            waiting.extend(reversed(each))
    return reasons


class _Comparison:
    """Identities are keys here: both trees stay alive as long as the comparison."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], _Found] = {}
        self._branches: dict[int, dict[str, list[AvroType]]] = {}

    def run(self, pair: _Pair) -> _Found:
        stack: list[tuple[tuple[int, int], _Work]] = []
        answer = self._begin(pair, stack)
        while stack:
            key, work = stack[-1]
            try:
                wanted = next(work) if answer is None else work.send(answer)
            except StopIteration as done:
                stack.pop()
                answer = self._known[key] = done.value
            else:
                answer = self._begin(wanted, stack)
        assert answer is not None
        return answer

    def _begin(self, pair: _Pair, stack: list[tuple[tuple[int, int], _Work]]) -> _Found | None:
        """What is known of a pair; else None, and its comparison is on the stack."""
        step()
        key = (id(pair.reader), id(pair.writer))
        known = self._known.get(key)
        if known is not None:
            return known
        if len(self._known) >= PAIRS_MAX:
            raise TooComplex(f"comparing the two schemas takes more than {PAIRS_MAX} steps")
        self._known[key] = ()
        stack.append((key, self._compared(pair)))
        return None

    def _compared(self, pair: _Pair) -> _Work:
        reader, writer, path = pair
        if reader.kind == writer.kind or (reader.is_record and writer.is_record):
            return _same_kind(reader, writer, path)
        if writer.kind == "union":
            return _writers_union(reader, writer)
        if reader.kind == "union":
            return self._readers_union(reader, writer, path)
        return _promoted(reader, writer, path)

    def _readers_union(self, reader: AvroType, writer: AvroType, path: _Path) -> _Work:
        for branch in self._candidates(reader, writer):
            if not (yield _Pair(branch, writer, None)):
                return ()
        return (_Reason("MISSING_UNION_BRANCH", path, f"reader union lacking writer type: {_kind(writer)}"),)

    def _candidates(self, union: AvroType, writer: AvroType) -> list[AvroType]:
        """The branches that may read a type, found by name: two large unions are no product of their
        sizes."""
        branches = self._branches.get(id(union))
        if branches is None:
            branches = self._branches[id(union)] = {}
            for each in union.branches:
                names = [f"simple {each.name.simple}"] if each.name else [""]
                names += [f"full {alias.full}" for alias in each.aliases]
                for name in names:
                    branches.setdefault(name, []).append(each)
        if writer.name is None:
            return branches.get("", [])
        named = [
            *branches.get(f"simple {writer.name.simple}", []),
            *branches.get(f"full {writer.full_name}", []),
        ]
        return [each for each in named if each.is_record == writer.is_record] + branches.get("", [])


def _same_kind(reader: AvroType, writer: AvroType, path: _Path) -> _Work:
    found: list[_Reason | _Found] = []
    if reader.items is not None and writer.items is not None:
        return (
            yield _Pair(reader.items, writer.items, (path, "items" if reader.kind == "array" else "values"))
        )
    if reader.kind == "union":
        for index, branch in enumerate(writer.branches):
            if (yield _Pair(reader, branch, (path, str(index)))):
                what = f"reader union lacking writer type: {_kind(branch)}"
                found.append(_Reason("MISSING_UNION_BRANCH", (path, str(index)), what))
        return tuple(found)
    if reader.name is not None and not _same_name(reader, writer):
        found.append(_Reason("NAME_MISMATCH", (path, "name"), f"expected: {writer.full_name}"))
    if reader.kind == "fixed" and reader.size_bytes != writer.size_bytes:
        what = f"expected: {writer.size_bytes}, found: {reader.size_bytes}"
        found.append(_Reason("FIXED_SIZE_MISMATCH", (path, "size"), what))
    elif reader.kind == "enum":
        missing = sorted(set(writer.symbols).difference(reader.symbols))
        if missing and reader.default_symbol is None:
            found.append(_Reason("MISSING_ENUM_SYMBOLS", (path, "symbols"), f"[{', '.join(missing)}]"))
    elif reader.is_record:
        found += yield from _fields(reader, writer, (path, "fields"))
    return tuple(found)


def _fields(reader: AvroType, writer: AvroType, path: _Path) -> _Work:
    found: list[_Reason | _Found] = []
    names = {each.name: each for each in writer.fields}
    for index, field in enumerate(reader.fields):
        written = [names[name] for name in dict.fromkeys(_names(field)) if name in names]
        place = (path, str(index))
        if len(written) > 1:
            found.append(_Reason("UNEXPECTED_ERROR", place, field.name))
        elif written:
            inner = yield _Pair(field.type, written[0].type, (place, "type"))
            if inner:
                found.append(inner)
        elif field.default is NO_DEFAULT:
            found.append(_Reason("READER_FIELD_MISSING_DEFAULT_VALUE", place, field.name))
    return tuple(found)


def _writers_union(reader: AvroType, writer: AvroType) -> _Work:
    # Told from the root, as by Avro's library, which forgets the path here.
    found: list[_Reason | _Found] = []
    for branch in writer.branches:
        inner = yield _Pair(reader, branch, None)
        if inner:
            found.append(inner)
    return tuple(found)


def _promoted(reader: AvroType, writer: AvroType, path: _Path) -> _Work:
    if writer.kind in _PROMOTIONS.get(reader.kind, ()):
        return ()
    what = f"reader type: {_kind(reader)} not compatible with writer type: {_kind(writer)}"
    return (_Reason("TYPE_MISMATCH", path, what),)
    yield  # never reached: makes this a generator like the others


def _same_name(reader: AvroType, writer: AvroType) -> bool:
    """Namespaces do not count; an alias of the reader may be the writer's name."""
    if reader.name is None or writer.name is None:
        return False
    if reader.name.simple == writer.name.simple:
        return True
    return any(each.full == writer.name.full for each in reader.aliases)


def _names(field: AvroField) -> tuple[str, ...]:
    """By which a reader's field may be called in the writer's schema."""
    return (field.name, *(field.aliases or ()))


def _kind(type_: AvroType) -> str:
    return "RECORD" if type_.is_record else type_.kind.upper()


def _difference(reason: _Reason) -> Difference:
    steps = []
    path = reason.path
    while path is not None:
        path, step = path
        steps.append(step.replace("~", "~0").replace("/", "~1"))
    if len(steps) > STEPS_MAX:
        steps[STEPS_MAX:] = ["..."]
    location = "/" + "/".join(reversed(steps))
    what = reason.what
    return Difference(reason.kind, location, _SENTENCES[reason.kind].format(path=location, what=what), what)
