"""Secrets do not get into logs, status or errors: their values are replaced in every text that leaves a
task."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from moldau.connect.settings import Setting, SettingType

HIDDEN = "[hidden]"
_LENGTH_MIN = 3
_SUSPECT = re.compile(r"password|secret|token|credential|api[._-]?key|sasl\.jaas|private", re.IGNORECASE)


class Hiding:
    """Knows the secrets of one connector."""

    def __init__(self, config: Mapping[str, str], rows: Iterable[Setting] = ()) -> None:
        secret_names = {row.name for row in rows if row.type is SettingType.PASSWORD}
        found = {
            value
            for name, value in config.items()
            if (name in secret_names or _SUSPECT.search(name)) and len(value) >= _LENGTH_MIN
        } - {"true", "false", "none"}
        self._secrets = sorted(found, key=len, reverse=True)

    def text(self, text: str) -> str:
        """The text without them."""
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, HIDDEN)
        return text
