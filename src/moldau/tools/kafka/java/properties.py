"""Java's properties files, as --command-config and --consumer.config name them, and `name=value` words."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from moldau.common.core.properties import parse_properties
from moldau.common.settings.providers import DECLARED, fill_in
from moldau.common.settings.rows import SettingError
from moldau.tools.kafka.problems import CommandLineError, ToolError


def read_properties(path: str) -> dict[str, str]:
    """Read a property file, with `${file:...}` and the like filled in. ToolError."""
    try:
        text = Path(path).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as problem:
        raise ToolError(f"{path} cannot be read: {problem.strerror}") from None
    try:
        found = parse_properties(text)
    except ValueError as problem:
        raise ToolError(f"{path}: {problem}") from None
    return _filled_in(path, found) if DECLARED in found else found


def _filled_in(path: str, settings: dict[str, str]) -> dict[str, str]:
    """Replace `${file:...}` and the like (KIP-297). ToolError for what a provider does not have."""
    try:
        found = fill_in(settings, os.environ)
    except SettingError as problem:
        raise ToolError(f"{path}: {problem.sentence}") from None
    return {name: value for name, value in found.items() if not name.startswith(DECLARED)}


def parse_pairs(words: Iterable[str], option: str) -> dict[str, str]:
    """Turn repeated name=value words into a mapping; a name alone has an empty value, as in Kafka."""
    found: dict[str, str] = {}
    for word in words:
        name, _, value = word.partition("=")
        if not name.strip():
            raise CommandLineError(
                f"Invalid command line properties: '{word}'", f"--{option} takes NAME=VALUE."
            )
        found[name.strip()] = value
    return found
