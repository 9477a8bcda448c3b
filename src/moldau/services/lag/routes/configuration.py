"""The settings as `/v3/config` shows them, without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_KINDS = ("storage", "evaluator", "cluster", "consumer", "notifier")
_SECRETS = ("pass", "token", "secret", "key", "auth", "cookie", "credential", "url", "webhook", "headers")
"""Parts of names whose values are left out: a webhook's URL lets anybody post, and headers log in."""


class ConfigRoutes:
    """Over the parsed file."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def main(self) -> dict[str, Any]:
        """The sections that have no entries."""
        sections = ("general", "logging", "httpserver")
        return {name: _without_secrets(self._document.get(name, {})) for name in sections}

    def names(self, kind: str) -> list[str] | None:
        """The entries of a kind; None: there is no such kind."""
        return sorted(self._document.get(kind, {})) if kind in _KINDS else None

    def entry(self, kind: str, name: str) -> dict[str, Any] | None:
        """One entry; None: there is none."""
        found = self._document.get(kind, {}).get(name) if kind in _KINDS else None
        return None if found is None else _without_secrets(found)


def _without_secrets(found: Any) -> Any:
    if isinstance(found, dict):
        return {
            name: _without_secrets(value)
            for name, value in found.items()
            if not any(each in name.lower() for each in _SECRETS)
        }
    return [_without_secrets(each) for each in found] if isinstance(found, list) else found
