"""Java's properties files, as --command-config and --consumer.config name them, and `name=value` words."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from moldau.common.settings.providers import DECLARED, fill_in
from moldau.common.settings.rows import SettingError
from moldau.tools.kafka.problems import CommandLineError, ToolError

_PAIR = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:\s]\s*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: str) -> dict[str, str]:
    """Read a file of name=value lines: # and ! begin comments, a backslash at the end goes on in the next
    line.
    """
    try:
        text = Path(path).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as problem:
        raise ToolError(f"{path} cannot be read: {problem.strerror}") from None
    found: dict[str, str] = {}
    pending = ""
    for line in re.split(r"\r\n|\r|\n", text):
        words = pending + line.lstrip()
        pending = ""
        if not words or words[0] in "#!":
            continue
        if (len(words) - len(words.rstrip("\\"))) % 2:
            pending = words[:-1]
            continue
        name, value = _pair(words)
        found[name] = value
    if pending:
        name, value = _pair(pending)
        found[name] = value
    return _filled_in(path, found) if DECLARED in found else found


def _filled_in(path: str, settings: dict[str, str]) -> dict[str, str]:
    """Replace `${file:...}` and the like (KIP-297). ToolError for what a provider does not have."""
    try:
        found = fill_in(settings, os.environ)
    except SettingError as problem:
        raise ToolError(f"{path}: {problem.sentence}") from None
    return {name: value for name, value in found.items() if not name.startswith(DECLARED)}


def _pair(words: str) -> tuple[str, str]:
    split = _PAIR.fullmatch(words)
    name, value = split.groups() if split else (words, "")
    return _unescape(name), _unescape(value)


def _unescape(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match[1]
        if len(code) == 5:
            return chr(int(code[1:], 16))
        return _ESCAPED.get(code, code)

    return _ESCAPE.sub(one, text)


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
