"""Finds the class that a name in a configuration stands for: the table, a package's entry, `module:Class`.

    FileStreamSource  FileStreamSourceConnector         the short name, with or without Connector
    org.apache.kafka.connect.file.FileStreamSourceConnector   another product's name
    my_package.weather:Weather                          a class of one's own

Packages add theirs by entry points of the group `moldau.connect`; a name of the table wins over theirs.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from moldau.connect.errors import ConnectError
from moldau.connect.plugins import PLUGINS, Kind, Plugin

GROUP = "moldau.connect"


def plugin_named(kinds: Iterable[Kind], name: str) -> Plugin | None:
    """The row of the table that a name selects, if one does."""
    wanted = set(kinds)
    simple = name.removesuffix("Connector")
    for row in PLUGINS:
        if row.kind in wanted and (name in (row.name, row.place, *row.other_names) or row.name == simple):
            return row
    for row in PLUGINS:
        if row.kind in wanted and "." not in name and name in _last_parts(row):
            return row
    return None


def _last_parts(row: Plugin) -> list[str]:
    return [each.rpartition(".")[2].rpartition("$")[2] for each in row.other_names]


def find(kinds: Iterable[Kind], name: str) -> Any:
    """The class, or function, of a name. ConnectError: there is none, or it cannot be imported."""
    kinds = tuple(kinds)
    row = plugin_named(kinds, name)
    if row is not None:
        return _loaded(name, row.place, row.extra)
    entry = _installed().get(name)
    if entry is not None:
        return _loaded(name, entry.value, "")
    if ":" in name:
        return _loaded(name, name, "")
    what = " or ".join(each.value for each in kinds)
    raise ConnectError(
        f"{name} is not known as a {what}: give a name of GET /connector-plugins, or module:Class of an "
        "installed package"
    )


@lru_cache(maxsize=1)
def _installed() -> dict[str, EntryPoint]:
    return {each.name: each for each in entry_points(group=GROUP)}


def installed_plugins() -> dict[str, EntryPoint]:
    """The entry points of installed packages, by name."""
    return dict(_installed())


def _loaded(name: str, place: str, extra: str) -> Any:
    module, _, attribute = place.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except ImportError as missing:
        advice = f': pip install "moldau[{extra}]"' if extra else ""
        raise ConnectError(f"{name} cannot be loaded: {missing}{advice}") from missing
    except AttributeError:
        raise ConnectError(f"{name} cannot be loaded: module {module} has no {attribute}") from None
    except Exception as broken:
        raise ConnectError(f"{name} cannot be loaded: {type(broken).__name__}: {broken}") from broken
    if not (inspect.isclass(found) or callable(found)):
        raise ConnectError(f"{name} is neither a class nor a function")
    return found
