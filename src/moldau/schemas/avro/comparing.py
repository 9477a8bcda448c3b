"""Whether a reader with one Avro schema can read what was written with another: the rules of the
specification ("schema resolution"), found and told as Avro's Java library does, whose messages Confluent's
registry passes on.

A pair of types that is met again while it is compared is taken for compatible: if it is not, that is found
where it was met first. Each pair is compared once, so the result is of the size of the schemas, not of their
paths. The walk is a stack of generators: a chain of ten thousand records is no deep recursion.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import NamedTuple

from moldau.schemas.avro.tree import NO_DEFAULT, AvroField, AvroType
from moldau.schemas.schema import Difference, TooComplex

PAIRS_MAX = 300_000
"""More pairs of types than these are not compared: a second of work. Schemas of people have thousands."""
DIFFERENCES_MAX = 5_000
"""Of a type. Types that are used in many ways would otherwise multiply what is told about them."""

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

_Path = tuple[str, ...]
_Found = tuple[Difference, ...]


class _Pair(NamedTuple):
    """A comparison that another waits for."""

    reader: AvroType
    writer: AvroType
    path: _Path


_Work = Generator[_Pair, _Found, _Found]


def compare(reader: AvroType, writer: AvroType) -> list[Difference]:
    """What keeps `reader` from reading what `writer` wrote. TooComplex for schemas beyond all limits."""
    # Identities are keys: both trees stay alive as long as this call.
    known: dict[tuple[int, int], _Found] = {}
    stack: list[tuple[tuple[int, int], _Work]] = []
    answer: _Found | None = None
    wanted: _Pair | None = _Pair(reader, writer, ())
    while True:
        if wanted is not None:
            key = (id(wanted.reader), id(wanted.writer))
            answer = known.get(key)
            if answer is None:
                if len(known) >= PAIRS_MAX:
                    raise TooComplex(f"comparing the two schemas takes more than {PAIRS_MAX} steps")
                known[key] = ()
                stack.append((key, _compared(wanted)))
            wanted = None
        if not stack:
            assert answer is not None
            return list(answer)
        key, work = stack[-1]
        try:
            wanted = work.send(answer) if answer is not None else next(work)
        except StopIteration as done:
            stack.pop()
            answer = known[key] = done.value[:DIFFERENCES_MAX]
        else:
            answer = None


def _compared(pair: _Pair) -> _Work:
    reader, writer, path = pair
    if reader.kind == writer.kind or (reader.is_record and writer.is_record):
        return _same_kind(reader, writer, path)
    if writer.kind == "union":
        return _writers_union(reader, writer)
    if reader.kind == "union":
        return _readers_union(reader, writer, path)
    return _promoted(reader, writer, path)


def _same_kind(reader: AvroType, writer: AvroType, path: _Path) -> _Work:
    found: list[Difference] = []
    if reader.items is not None and writer.items is not None:
        return (
            yield _Pair(reader.items, writer.items, (*path, "items" if reader.kind == "array" else "values"))
        )
    if reader.kind == "union":
        for index, branch in enumerate(writer.branches):
            if (yield _Pair(reader, branch, (str(index), *path))):
                what = f"reader union lacking writer type: {_kind(branch)}"
                found.append(_difference("MISSING_UNION_BRANCH", (*path, str(index)), what))
        return tuple(found)
    if reader.name is not None and not _same_name(reader, writer):
        found.append(_difference("NAME_MISMATCH", (*path, "name"), f"expected: {writer.full_name}"))
    if reader.kind == "fixed" and reader.size_bytes != writer.size_bytes:
        what = f"expected: {writer.size_bytes}, found: {reader.size_bytes}"
        found.append(_difference("FIXED_SIZE_MISMATCH", (*path, "size"), what))
    elif reader.kind == "enum":
        missing = sorted(set(writer.symbols).difference(reader.symbols))
        if missing and reader.default_symbol is None:
            what = f"[{', '.join(missing)}]"
            found.append(_difference("MISSING_ENUM_SYMBOLS", (*path, "symbols"), what))
    elif reader.is_record:
        names = {each.name: each for each in writer.fields}
        for index, field in enumerate(reader.fields):
            place = (*path, "fields", str(index))
            written = [names[name] for name in dict.fromkeys(_names(field)) if name in names]
            if len(written) > 1:
                found.append(_difference("UNEXPECTED_ERROR", place, field.name))
            elif written:
                found += yield _Pair(field.type, written[0].type, (*place, "type"))
            elif field.default is NO_DEFAULT:
                found.append(_difference("READER_FIELD_MISSING_DEFAULT_VALUE", place, field.name))
    return tuple(found)


def _writers_union(reader: AvroType, writer: AvroType) -> _Work:
    # Told from the root, as by Avro's library, which forgets the path here.
    found: list[Difference] = []
    for branch in writer.branches:
        found += yield _Pair(reader, branch, ())
    return tuple(found)


def _readers_union(reader: AvroType, writer: AvroType, path: _Path) -> _Work:
    for branch in _candidates(reader, writer):
        if not (yield _Pair(branch, writer, ())):
            return ()
    what = f"reader union lacking writer type: {_kind(writer)}"
    return (_difference("MISSING_UNION_BRANCH", path, what),)


def _candidates(union: AvroType, writer: AvroType) -> Iterable[AvroType]:
    """The branches that may read a type: not those whose names already tell that they cannot."""
    return (
        each
        for each in union.branches
        if each.name is None or (each.is_record == writer.is_record and _same_name(each, writer))
    )


def _promoted(reader: AvroType, writer: AvroType, path: _Path) -> _Work:
    if writer.kind in _PROMOTIONS.get(reader.kind, ()):
        return ()
    what = f"reader type: {_kind(reader)} not compatible with writer type: {_kind(writer)}"
    return (_difference("TYPE_MISMATCH", path, what),)
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


def _difference(kind: str, path: _Path, what: str) -> Difference:
    location = "/" + "/".join(each.replace("~", "~0").replace("/", "~1") for each in path)
    return Difference(kind, location, _SENTENCES[kind].format(path=location, what=what), what)
