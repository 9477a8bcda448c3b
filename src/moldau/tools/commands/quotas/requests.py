"""DescribeClientQuotas and AlterClientQuotas as commands send them, whatever connection they have.

`Ask` sends one request and gives its response. Refusals are raised as `Refusal`; each command has its own
words for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from moldau.broker.metadata.image import QuotaEntity
from moldau.broker.security.quotas.entities import ordered
from moldau.broker.security.quotas.filters import ANY, DEFAULT, EXACT
from moldau.common.protocol.declare import Message
from moldau.common.protocol.messages import alter_client_quotas as alter
from moldau.common.protocol.messages import describe_client_quotas as describe

Ask = Callable[[Message], Any]
VERSION = 1
"""What every broker since Kafka 2.8 knows."""


class Refusal(Exception):
    """The broker refused; `error_code` says why, and `message` perhaps in words."""

    def __init__(self, error_code: int, message: str | None) -> None:
        super().__init__(message or "")
        self.error_code = error_code
        self.message = message


class AnyName:
    """Stands for any name in a filter, the default included."""


ANY_NAME = AnyName()


def held(
    ask: Ask, wanted: Mapping[str, str | AnyName | None], *, strict: bool
) -> dict[QuotaEntity, dict[str, float]]:
    """The quotas of the entities that match: by type a name, None for the default, or any. Refusal."""
    components = [
        describe.ComponentData(entity_type=kind, match_type=ANY, match=None)
        if isinstance(name, AnyName)
        else describe.ComponentData(
            entity_type=kind, match_type=DEFAULT if name is None else EXACT, match=name
        )
        for kind, name in wanted.items()
    ]
    answer = ask(describe.DescribeClientQuotasRequest(components=components, strict=strict))
    if answer.error_code:
        raise Refusal(answer.error_code, answer.error_message)
    return {
        ordered({part.entity_type: part.entity_name for part in entry.entity}): {
            one.key: one.value for one in entry.values
        }
        for entry in answer.entries or ()
    }


def change(ask: Ask, parts: Mapping[str, str | None], values: Mapping[str, float | None]) -> None:
    """Set the quotas of an entity, or (None) remove them. Refusal."""
    entry = alter.EntryData(
        entity=[alter.EntityData(entity_type=kind, entity_name=name) for kind, name in parts.items()],
        ops=[
            alter.OpData(key=key, value=0.0 if value is None else value, remove=value is None)
            for key, value in values.items()
        ],
    )
    for row in ask(alter.AlterClientQuotasRequest(entries=[entry])).entries:
        if row.error_code:
            raise Refusal(row.error_code, row.error_message)
