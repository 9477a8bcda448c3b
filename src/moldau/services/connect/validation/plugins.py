"""Which plugins there are: `GET /connector-plugins` and the settings of one.

A plugin whose packages are not installed is left out of the list; who names it is told what to install.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import isclass
from typing import Any

from moldau import __version__
from moldau.connect.errors import ConnectError
from moldau.connect.extras import missing_packages
from moldau.connect.finding import find, installed_plugins, plugin_named
from moldau.connect.plugins import PLUGINS, Kind
from moldau.connect.settings import Setting
from moldau.connect.sink import Sink
from moldau.connect.source import Source
from moldau.services.connect.runtime.rows import ERROR_ROWS, RESTART_ROWS, SINK_ROWS, SOURCE_ROWS
from moldau.services.connect.validation.common_rows import COMMON_ROWS, SOURCE_GROUPS
from moldau.services.connect.validation.infos import definition

CONNECTORS = (Kind.SINK, Kind.SOURCE)


@dataclass(frozen=True, slots=True)
class Listed:
    """One row of the list."""

    name: str
    kind: Kind
    version: str

    def as_json(self) -> Mapping[str, str]:
        """As Kafka writes it."""
        return {"class": self.name, "type": self.kind.value, "version": self.version}


def plugins(kinds: Sequence[Kind]) -> list[Listed]:
    """Those that can be used, by kind and name."""
    found = {
        (row.kind, row.name): Listed(row.name, row.kind, __version__)
        for row in PLUGINS
        if row.kind in kinds and not missing_packages(row.extra)
    }
    for each in _of_packages():
        if each.kind in kinds:
            found.setdefault((each.kind, each.name), each)
    return sorted(found.values(), key=lambda each: (each.kind.value, each.name))


def _of_packages() -> Iterator[Listed]:
    """Entry points of installed packages; those that cannot be imported are left out."""
    from moldau.connect.converter import Converter, HeaderConverter
    from moldau.connect.transform import Predicate, Transform

    bases = {
        Source: Kind.SOURCE,
        Sink: Kind.SINK,
        Converter: Kind.CONVERTER,
        HeaderConverter: Kind.HEADER_CONVERTER,
        Transform: Kind.TRANSFORM,
        Predicate: Kind.PREDICATE,
    }
    for name in installed_plugins():
        try:
            made = find(tuple(Kind), name)
        except ConnectError:
            continue
        kind = next((kind for base, kind in bases.items() if isclass(made) and issubclass(made, base)), None)
        if kind is not None:
            yield Listed(name, kind, str(getattr(made, "version", "")))


def plugin_config(name: str) -> list[dict[str, Any]]:
    """The settings of a plugin of any kind. ConnectError."""
    kinds = [kind for kind in Kind if plugin_named([kind], name) is not None] or list(Kind)
    found = find(kinds, name)
    rows: Sequence[Setting] = getattr(found, "settings", ())
    if isclass(found) and issubclass(found, Sink):
        rows = (*COMMON_ROWS, *SINK_ROWS, *ERROR_ROWS, *RESTART_ROWS, *rows)
    elif isclass(found) and issubclass(found, Source):
        rows = (*COMMON_ROWS, *SOURCE_ROWS, SOURCE_GROUPS, *ERROR_ROWS, *RESTART_ROWS, *rows)
    return [definition(row, row.name, row.group, order) for order, row in enumerate(rows, 1)]
