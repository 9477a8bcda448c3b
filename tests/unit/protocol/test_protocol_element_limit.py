"""Every request with too many array elements is malformed, whichever of its lists holds them."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest

import moldau.common.protocol.messages
from moldau.common.protocol.declare import Message, Struct
from moldau.common.protocol.schema import Array, Nested, columns
from moldau.common.protocol.wire import MalformedMessage

ELEMENTS_MAX = 128
ROWS = 5_000  # more than are freed at once


def requests() -> Iterator[type[Message]]:
    for module in pkgutil.iter_modules(
        moldau.common.protocol.messages.__path__, "moldau.common.protocol.messages."
    ):
        importlib.import_module(module.name)
    waiting: list[type] = [Message]
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        if hasattr(cls, "RESPONSE"):
            yield cls


def list_paths(cls: type[Struct], version: int, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The attributes that lead to each list, at all depths."""
    for column in columns(cls):
        if not column.present(version):
            continue
        path = (*above, column.name)
        if isinstance(column.type, Array):
            yield path
            if isinstance(column.type.element, Nested):
                yield from list_paths(column.type.element.struct, version, path)
        elif isinstance(column.type, Nested):
            yield from list_paths(column.type.struct, version, path)


def filled(cls: type[Struct], path: tuple[str, ...]) -> Struct:
    """A message whose list at `path` has too many elements, and each list on the way to it one."""
    value: Any = cls()
    for column in columns(cls):
        if column.name != path[0]:
            continue
        if isinstance(column.type, Nested):
            setattr(value, column.name, filled(column.type.struct, path[1:]))
            continue
        assert isinstance(column.type, Array)
        element = column.type.element
        if isinstance(element, Nested):
            rows = [filled(element.struct, path[1:])] if path[1:] else [element.struct()] * ROWS
        else:
            kind: Any = getattr(element, "kind", None)
            rows = [{"string": "", "bytes": b""}.get(kind, getattr(element, "default", None))] * ROWS
        setattr(value, column.name, rows)
    return value


CASES = [
    pytest.param(cls, version, path, id=f"{cls.__name__}-v{version}-{'.'.join(path)}")
    for cls in sorted(requests(), key=lambda cls: cls.__name__)
    for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)
    for path in list_paths(cls, version)
]


@pytest.mark.parametrize(("cls", "version", "path"), CASES)
def test_too_many_elements_are_malformed(cls: type[Message], version: int, path: tuple[str, ...]) -> None:
    request = filled(cls, path)
    assert isinstance(request, Message)
    data = bytes(request.encode(version))
    with pytest.raises(MalformedMessage, match="more than 128 array elements"):
        for _ in cls.decode_in_slices(data, version, 0, ELEMENTS_MAX):
            pass
