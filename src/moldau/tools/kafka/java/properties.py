"""Java's properties files, as --command-config and --consumer.config name them, and `name=value` words."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from moldau.common.settings.providers import read_settings
from moldau.common.settings.rows import SettingError
from moldau.tools.kafka.problems import CommandLineError, ToolError


def read_properties(path: str) -> dict[str, str]:
    """Read a property file, with `${file:...}` and the like filled in. ToolError."""
    try:
        return read_settings(Path(path), os.environ, "surrogateescape")
    except OSError as problem:
        raise ToolError(f"{path} cannot be read: {problem.strerror}") from None
    except SettingError as problem:
        raise ToolError(f"{path}: {problem.sentence}") from None
    except ValueError as problem:
        raise ToolError(f"{path}: {problem}") from None


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
