"""Files of settings: a worker's properties; connectors' properties or JSON, as Kafka's connect-standalone
takes them.

x.properties                        name=..., connector.class=..., one connector
x.json   {"name": .., ...}          the same
         {"name": .., "config": {..}, "initial_state": "STOPPED"}    as POST /connectors takes it
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from moldau.common.core.properties import parse_properties
from moldau.common.settings.providers import fill_in
from moldau.common.settings.rows import SettingError
from moldau.tools.shared.errors import UsageError


class ConnectorFile(NamedTuple):
    """One connector."""

    name: str
    config: dict[str, str]
    initial_state: str | None = None


def worker_texts(path: Path | None) -> dict[str, str]:
    """A worker's settings, `${file:..}` and the like filled in. UsageError names the file and the setting."""
    if path is None:
        return {}
    try:
        return fill_in(parse_properties(_text(path)), os.environ)
    except SettingError as problem:
        raise UsageError(f"{path}: {problem.sentence}") from None
    except ValueError as problem:
        raise UsageError(f"{path} is not a property file: {problem}") from None


def connector_file(path: Path) -> ConnectorFile:
    """A connector. UsageError."""
    text = _text(path)
    try:
        if path.suffix == ".json" or text.lstrip().startswith("{"):
            return _of_json(path, json.loads(text))
        config = parse_properties(text)
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"{path} is neither a property file nor JSON: {problem}") from None
    return _named(path, config, None)


def _of_json(path: Path, found: Any) -> ConnectorFile:
    if not isinstance(found, dict):
        raise UsageError(f"{path} is no JSON object")
    config, state = found, None
    if isinstance(found.get("config"), dict):
        config, state = found["config"], found.get("initial_state")
        if isinstance(found.get("name"), str):
            config = {"name": found["name"], **config}
    texts = {str(name): _value(value) for name, value in config.items() if value is not None}
    return _named(path, texts, None if state is None else str(state).upper())


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def _named(path: Path, config: dict[str, str], state: str | None) -> ConnectorFile:
    name = config.get("name", "").strip()
    if not name:
        raise UsageError(f"{path} has no setting name: it names the connector")
    return ConnectorFile(name, config, state)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as problem:
        raise UsageError(f"{path} cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not text") from None
