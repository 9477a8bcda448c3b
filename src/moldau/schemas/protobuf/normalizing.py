"""The text that is equal for files which differ only in what has no meaning (`normalize=true`).

Fields by number, options, imports and reserved numbers in order, names of types in full, map entries as maps,
numbers of options in one form, values of one option put together; syntax is named only if it is proto3. The
order of messages stays: message indexes count them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import Any

from moldau.schemas.protobuf.elements import (
    SCALARS,
    Enum,
    EnumConstant,
    Extend,
    Field,
    File,
    Kind,
    Message,
    OneOf,
    Option,
    Primitive,
    Range,
    Reserved,
    map_types,
)
from moldau.schemas.protobuf.printer import Printer
from moldau.schemas.protobuf.scopes import Scope, Types
from moldau.schemas.schema import InvalidSchema

_THOUSANDTH = Decimal("0.001")


class Normalizing(Printer):
    """Prints the normal form."""

    def __init__(self, types: Types) -> None:
        super().__init__()
        self._types_known = types
        self._scope: Scope = ()

    def heading(self, file: File) -> list[str]:
        return super().heading(file) if file.edition or file.syntax == "proto3" else []

    def enter(self, name: str) -> None:
        self._scope = (*self._scope, name)

    def leave(self) -> None:
        self._scope = self._scope[:-1]

    def imports(self, imports: Sequence[str]) -> Sequence[str]:
        return sorted(set(imports))

    def ordered(self, elements: Sequence[Any]) -> Sequence[Any]:
        if elements and isinstance(elements[0], EnumConstant):
            return sorted(elements, key=lambda each: (each.tag, each.name))
        return sorted(elements, key=lambda each: int(each.tag))

    def one_ofs(self, one_ofs: Sequence[OneOf]) -> Sequence[OneOf]:
        # Confluent's registry loses a oneof that has groups only, and prints an empty section for what it
        # leaves out, so that its normal form has another normal form.
        tags = {
            one_of.name: min(
                [field.tag for field in one_of.fields] + [group.tag for group in one_of.groups],
                default=None,
            )
            for one_of in one_ofs
        }
        kept = [each for each in one_ofs if tags[each.name] is not None]
        return sorted(kept, key=lambda each: tags[each.name] or 0)

    def types(self, types: Sequence[Message | Enum]) -> Sequence[Message | Enum]:
        return [each for each in types if not (isinstance(each, Message) and each.is_map_entry)]

    def ranges(self, ranges: Sequence[Sequence[Reserved]]) -> Sequence[Sequence[Reserved]]:
        values = [value for group in ranges for value in group]
        return [[value] for value in sorted(values, key=_range_order)]

    def range_text(self, value: Reserved) -> str:
        if isinstance(value, Range) and value.start == value.end:
            return str(value.start)
        return super().range_text(value)

    def extends(self, extends: Sequence[Extend]) -> Sequence[Extend]:
        merged: dict[str, Extend] = {}
        for extend in extends:
            name = self.type_name(extend.name)
            merged.setdefault(name, Extend(name)).fields.extend(extend.fields)
        return list(merged.values())

    def type_name(self, name: str) -> str:
        found = self._types_known.find(name, self._scope)
        if found is None:
            raise InvalidSchema(f"{name} is not defined, neither here nor in a reference")
        return f".{found.full_name}"

    def field_type(self, field: Field) -> tuple[str | None, str]:
        types = map_types(field.type)
        if types is None:
            if field.type in SCALARS:
                return field.label, field.type
            name = self.type_name(field.type)
            info = self._types_known.find(name, ())
            types = info.map_types if info is not None else None
            if types is None:
                return field.label, name
        key, value = types
        found = None if value in SCALARS else self._types_known.find(value, self._scope)
        return None, f"map<{key}, {'.' + found.full_name if found else value}>"

    def number(self, text: str) -> str:
        """As java.text.DecimalFormat prints it, without grouping: three digits behind the point."""
        try:
            value = Decimal(_integer(text))
        except ValueError:
            try:
                value = Decimal(text.rstrip("fFdDlL"))
                if not value.is_finite() or abs(value.adjusted()) > 400:
                    return text
                value = value.quantize(_THOUSANDTH, ROUND_HALF_EVEN) if value.as_tuple().exponent else value
            except (InvalidOperation, ValueError):
                return text
        shown = f"{value:f}"
        return shown.rstrip("0").rstrip(".") if "." in shown else shown

    def entries(self, values: dict[str, Any]) -> Iterable[tuple[str, Any]]:
        found: dict[str, Any] = {}
        for name, value in values.items():
            if isinstance(value, list) and not value:
                continue
            if name.startswith("[") and name.endswith("]"):
                full_name = self._types_known.extension(name[1:-1], self._scope)
                name = f"[{full_name}]" if full_name is not None else name
            found.setdefault(name, value)
        return sorted(found.items())

    def single(self, values: list[Any]) -> bool:
        return len(values) == 1

    def options(self, options: Sequence[Option]) -> Sequence[Option]:
        by_name: dict[str, list[Option]] = {}
        for option in sorted(map(self._in_full, options), key=lambda each: each.name):
            by_name.setdefault(option.name, []).append(option)
        printed: list[Option] = []
        for name, group in by_name.items():
            extension = self._types_known.extensions.get(name)
            if extension is not None and extension.label != "repeated":
                group = [merged(group)]
            printed.extend(group)
        return printed

    def _in_full(self, option: Option) -> Option:
        full_name = self._types_known.extension(option.name, self._scope) if option.parenthesized else None
        if full_name is None:
            return option
        return as_map(Option(full_name, option.kind, option.value, True))


def _integer(text: str) -> int:
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    if len(digits) > 40 or not digits[:1].isdigit():
        raise ValueError(text)
    if digits[:2].lower() == "0x":
        return sign * int(digits[2:], 16)
    return sign * int(digits, 8 if digits.startswith("0") and len(digits) > 1 else 10)


def _range_order(value: Reserved) -> tuple[int, str]:
    if isinstance(value, str):
        return 2**31 - 1, value
    if isinstance(value, Range):
        return value.start, f"{value.start}..{value.end}"
    return value, str(value)


def as_map(option: Option) -> Option:
    """`(name).field = value` as `(name) = { field: value }`."""
    if option.kind is not Kind.OPTION:
        return option
    return Option(option.name, Kind.MAP, _map_of(option.value), option.parenthesized)


def _map_of(inner: Option) -> dict[str, Any]:
    value = inner.value
    if inner.kind is Kind.OPTION:
        value = _map_of(inner.value)
    elif inner.kind in (Kind.BOOLEAN, Kind.ENUM, Kind.NUMBER):
        value = Primitive(inner.kind, inner.value)
    return {inner.name: value}


def merged(options: Sequence[Option]) -> Option:
    """One option of several that say parts of it; the last one, if they are no maps."""
    maps = [as_map(each) for each in options]
    last = maps[-1]
    start = next((n for n in range(len(maps), 0, -1) if maps[n - 1].kind is not Kind.MAP), 0)
    if len(maps) - start < 2:
        return last
    values: dict[str, Any] = {}
    several: dict[str, dict[str, Any]] = {}
    for option in maps[start:]:
        for name, value in option.value.items():
            if name not in values:
                values[name] = value
                continue
            if name not in several:
                several[name] = {repr(each): each for each in _as_list(values[name])}
            for each in _as_list(value):
                several[name].setdefault(repr(each), each)
    values.update((name, list(found.values())) for name, found in several.items())
    return Option(last.name, Kind.MAP, values, last.parenthesized)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


class WithoutExtensions(Printer):
    """Prints what `format=ignore_extensions` asks for: no extensions, no options of one's own."""

    with_extensions = False

    def options(self, options: Sequence[Option]) -> Sequence[Option]:
        return [each for each in options if not each.parenthesized or each.name.startswith("confluent.")]

    def extends(self, extends: Sequence[Extend]) -> Sequence[Extend]:
        return ()
