"""The schema registry as pages need it: subjects, versions, texts, levels. Calls run in threads.

Not here: decoding records (cluster.py has a reader with a cache of its own).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from moldau.schemas.registry_settings import RegistrySettingError, client_settings
from moldau.services.console.addresses import without_login
from moldau.services.http.problems import HttpProblem

T = TypeVar("T")
_SUBJECTS_KEPT_SECONDS = 5.0
_TRANSPORT_MODULES = ("httpx", "httpx2", "httpcore", "httpcore2", "ssl", "socket", "json", "builtins")


class Version(NamedTuple):
    """A version of a subject."""

    version: int
    schema_id: int
    type: str
    text: str
    references: tuple[tuple[str, str, int], ...]
    """Name, subject, version."""


class Registry:
    """One registry. HttpProblem from every method that asks it: 404, 502, 503."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """`settings` are `schema.registry.*`. RegistrySettingError."""
        from confluent_kafka.schema_registry import SchemaRegistryClient

        try:
            self._client: Any = SchemaRegistryClient(client_settings(settings))
        except (ValueError, TypeError, OSError) as wrong:
            raise RegistrySettingError(f"the settings of the schema registry are wrong: {wrong}") from None
        self.url = without_login(settings["schema.registry.url"])
        """For people."""
        self._subjects: tuple[float, list[str]] = (float("-inf"), [])

    async def subjects(self) -> list[str]:
        """All, in order; at most some seconds old."""
        kept_at, found = self._subjects
        if time.monotonic() - kept_at > _SUBJECTS_KEPT_SECONDS:
            found = sorted(await self._ask(self._client.get_subjects))
            self._subjects = (time.monotonic(), found)
        return found

    async def versions(self, subject: str) -> list[int]:
        """The numbers of a subject's versions, the oldest first."""
        return sorted(await self._ask(lambda: self._client.get_versions(subject)))

    async def version(self, subject: str, version: int) -> Version:
        """One version."""
        found = await self._ask(lambda: self._client.get_version(subject, version))
        references = tuple(
            (each.name or "", each.subject or "", each.version or 0) for each in found.schema.references or ()
        )
        return Version(
            found.version,
            found.schema_id,
            found.schema.schema_type or "AVRO",
            found.schema.schema_str or "",
            references,
        )

    async def level(self, subject: str) -> str:
        """The compatibility level that holds for a subject; empty if the registry does not tell."""

        def ask() -> str:
            for name in (subject, None):
                try:
                    found = self._client.get_config(name)
                except Exception as problem:
                    if getattr(problem, "http_status_code", 0) != 404:
                        raise
                    continue
                return str(getattr(found, "compatibility_level", None) or found.compatibility or "")
            return ""

        return await self._ask(ask)

    async def _ask(self, work: Callable[[], T]) -> T:
        return await asyncio.to_thread(self._told, work)

    def _told(self, work: Callable[[], T]) -> T:
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            return work()
        except SchemaRegistryError as problem:
            status = problem.http_status_code
            words = f"The schema registry says: {problem.error_message}"
            raise HttpProblem(404 if status == 404 else 502, words) from None
        except Exception as problem:
            if type(problem).__module__.partition(".")[0] not in _TRANSPORT_MODULES:
                raise
            raise HttpProblem(503, f"The schema registry {self.url} cannot be reached: {problem}") from None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
