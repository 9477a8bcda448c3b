"""The words after Kafka's scripts that start a server: [-daemon] FILE... and --override NAME=VALUE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from moldau.tools.kafka.problems import CommandLineError

_IGNORED = {"-loggc": 0, "-name": 1}  # what the scripts pass to each other


class ScriptWords(NamedTuple):
    """Files of settings, overrides as NAME=VALUE, and whether to run in the background."""

    files: list[str]
    overrides: list[str]
    background: bool


def script_words(words: Sequence[str], usage: str, files_max: int | None = 1) -> ScriptWords:
    """Parse them. CommandLineError with the usage: no file, more than `files_max` (None: any number), or an
    option that the script does not have.
    """
    files: list[str] = []
    overrides: list[str] = []
    background = False
    remaining = list(words)
    while remaining:
        word = remaining.pop(0)
        name, equals, value = word.partition("=")
        if word in ("-daemon", "--daemon"):
            background = True
        elif word in _IGNORED:
            del remaining[: _IGNORED[word]]
        elif name == "--override" and "--override" in usage:
            value = value if equals else (remaining.pop(0) if remaining else "")
            if "=" not in value:
                raise CommandLineError(f"--override needs property=value, not {value!r}", usage)
            overrides.append(value)
        elif word.startswith("-") and (files_max is None or word in ("--help", "-h")):
            raise CommandLineError(usage)
        else:
            files.append(word)
    if not files:
        raise CommandLineError(usage)
    if files_max is not None and len(files) > files_max:
        raise CommandLineError(f"Found non argument parameters: {files[files_max]}", usage)
    return ScriptWords(files, overrides, background)
