"""A connector's configuration from a file: JSON as REST takes it ({name, config}, or the settings alone), or
properties as Kafka's connect-standalone takes them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moldau.common.core.properties import parse_properties
from moldau.tools.shared.errors import UsageError


def connector_of(file: str, name: str | None, changes: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Name and settings; `-` is standard input. What is given beside the file wins. UsageError."""
    config: dict[str, Any] = {}
    found: str | None = None
    if file:
        found, config = _read(file)
    config.update(changes)
    wanted = name or found or config.get("name")
    if not wanted:
        raise UsageError("the connector has no name: give it as NAME, or as the setting name")
    return str(wanted), {**config, "name": str(wanted)}


def _read(file: str) -> tuple[str | None, dict[str, Any]]:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise UsageError(f"{file} cannot be read: {getattr(problem, 'strerror', None) or problem}") from None
    if not text.lstrip().startswith("{"):
        return None, dict(parse_properties(text))
    try:
        given = json.loads(text)
    except ValueError as problem:
        raise UsageError(f"{file} is no JSON: {problem}") from None
    if isinstance(given.get("config"), dict):
        return given.get("name"), dict(given["config"])
    return None, dict(given)
