"""Whether an extra of Moldau's is installed, without importing anything of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version

_END_OF_NAME = frozenset("[<>=!~;( ")


@cache
def missing_packages(extra: str) -> tuple[str, ...]:
    """The packages of an extra (and of extras it names) that are not there. Empty: it can be used."""
    return tuple(sorted(set(_missing(extra, set()))))


def _missing(extra: str, seen: set[str]) -> Iterator[str]:
    if not extra or extra in seen:
        return
    seen.add(extra)
    for requirement in requires("moldau") or ():
        head, semicolon, marker = requirement.partition(";")
        if not semicolon or f"'{extra}'" not in marker.replace('"', "'"):
            continue
        name = _name(head)
        if name == "moldau":
            for part in head.partition("[")[2].partition("]")[0].split(","):
                yield from _missing(part.strip(), seen)
        elif not _installed(name):
            yield name


def _name(requirement: str) -> str:
    name = requirement.strip()
    for index, letter in enumerate(name):
        if letter in _END_OF_NAME:
            return name[:index]
    return name


def _installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True
