"""A registry without brokers: what operations decide is replayed at once, and kept as a log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moldau.services.registry.election.identity import Identity
from moldau.services.registry.problems import RegistryProblem
from moldau.services.registry.service import RegistryService
from moldau.services.registry.settings import parse_registry_settings
from moldau.services.registry.state.body import Body
from moldau.services.registry.state.state import State
from moldau.services.registry.topic.rounds import Decision


class MemoryInstance:
    """A list for a topic; writes at once."""

    is_primary = True

    def __init__(self, state: State) -> None:
        self._state = state
        self.log: list[tuple[bytes, bytes | None]] = []
        self.is_repeatable = True

    def id_for(self, context: str, body: Body) -> int:
        """As the writer's."""
        known = self._state.id_of(context, body)
        return self._state.max_id(context) + 1 if known is None else known

    def catch_up_after_miss(self) -> bool:
        """There is nobody else who writes."""
        return False

    def write(
        self, decide: Callable[[], Decision], keys: frozenset[str] | None, *, repeatable: bool = True
    ) -> Any:
        """Decide, replay, answer."""
        self.is_repeatable = repeatable
        decision = decide()
        for key, value in self._state.encode(decision.records):
            self._state.replay(key, value, 1_000 + len(self.log), len(self.log))
            self.log.append((key, value))
        return decision.answer


class MemoryRegistry(RegistryService):
    """The service without brokers."""

    def __init__(self, texts: dict[str, str] | None = None) -> None:
        super().__init__(parse_registry_settings(texts or {}).settings, {}, Identity("localhost", 8081))
        self._memory = MemoryInstance(self.state)
        self.instance = self._memory  # type: ignore[assignment]

    @property
    def is_repeatable(self) -> bool:
        """What the last write said of itself."""
        return self._memory.is_repeatable

    @property
    def log(self) -> list[tuple[bytes, bytes | None]]:
        """What was written."""
        return self._memory.log

    @log.setter
    def log(self, log: list[tuple[bytes, bytes | None]]) -> None:
        self._memory.log = log

    def replayed(self) -> State:
        """The state that another instance reads from the log."""
        state = State()
        for offset, (key, value) in enumerate(self.log):
            state.replay(key, value, 1_000 + offset, offset)
        return state

    def refusal(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[int, str]:
        """The code and message with which a call is refused."""
        with pytest.raises(RegistryProblem) as caught:
            call(*args, **kwargs)
        return caught.value.error_code, caught.value.message


def record(name: str, *fields: str, default: bool = False) -> dict[str, Any]:
    """A request for an Avro record with fields of type string."""
    extra = ',"default":""' if default else ""
    parts = ",".join(f'{{"name":"{field}","type":"string"{extra}}}' for field in fields)
    return {"schema": f'{{"type":"record","name":"{name}","fields":[{parts}]}}'}
