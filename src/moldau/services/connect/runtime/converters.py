"""The converters of a task: `key.converter`, `value.converter` and `header.converter` with their settings.

A connector that names a converter has that one with its own settings behind the name; otherwise it has the
worker's, with the worker's settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from moldau.connect.converter import Converter, HeaderConverter
from moldau.connect.errors import ConnectError
from moldau.connect.finding import find
from moldau.connect.plugins import Kind
from moldau.connect.typed_settings import required_typed
from moldau.services.connect.runtime.setup import TaskSetup

DEFAULT_HEADER_CONVERTER = "org.apache.kafka.connect.storage.SimpleHeaderConverter"


class Converters(NamedTuple):
    """Of one task."""

    key: Converter
    value: Converter
    header: HeaderConverter

    def close(self) -> None:
        """Let go of their connections."""
        for each in self:
            each.close()


def converters_of(setup: TaskSetup) -> Converters:
    """Configured and ready. ConnectError."""
    key, value = (_converter(setup, which) for which in ("key", "value"))
    name, given = _chosen(setup, "header.converter", DEFAULT_HEADER_CONVERTER)
    kind = find([Kind.HEADER_CONVERTER], name)
    header: HeaderConverter = kind()
    header.configure(required_typed(kind.settings, given, "header.converter"))
    return Converters(key, value, header)


def _converter(setup: TaskSetup, which: str) -> Converter:
    owner = f"{which}.converter"
    name, given = _chosen(setup, owner, "")
    kind = find([Kind.CONVERTER], name)
    made: Converter = kind()
    made.configure(required_typed(kind.settings, given, owner), which == "key")
    return made


def _chosen(setup: TaskSetup, owner: str, default: str) -> tuple[str, dict[str, Any]]:
    config: Mapping[str, str] = setup.config if setup.config.get(owner) else setup.worker
    name = config.get(owner) or default
    if not name:
        raise ConnectError(f'Missing required configuration "{owner}" which has no default value.')
    prefix = f"{owner}."
    return name, {
        each.removeprefix(prefix): value for each, value in config.items() if each.startswith(prefix)
    }
