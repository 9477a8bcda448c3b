"""Changes of client quotas (KIP-546): each entity succeeds or fails as a whole.

A quota is a number above zero. Rates of bytes and of connections are whole; the others need not be.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from moldau.broker.controller.decision import DONE, RECORDS_MAX, TOO_LARGE, Decision, Outcome, Refusal, Steps
from moldau.broker.metadata.changes import Change, ClientQuotasChanged
from moldau.broker.metadata.image import Image
from moldau.common.access.quota_entities import (
    CLIENT_KEYS,
    CONNECTION,
    IP,
    TYPES,
    WHOLE_NUMBERS,
    QuotaEntity,
    address_of,
    ordered,
)
from moldau.common.protocol.errors import ErrorCode

NAME_BYTES_MAX = 4096


class AlterQuotas(NamedTuple):
    """Operations on the quotas of one entity: (quota, value), None to remove it. `entity`: (type, name), as
    the client gave them."""

    entity: Sequence[tuple[str, str | None]]
    operations: Sequence[tuple[str, float | None]]


Answer = list[tuple[AlterQuotas, Outcome]]


def alter_quotas(image: Image, asked: Sequence[AlterQuotas]) -> Steps[Answer]:
    """Decide on changed quotas: an outcome for each entity, in the order asked."""
    counts: Counter[frozenset[tuple[str, str | None]]] = Counter(frozenset(one.entity) for one in asked)
    changes: list[Change] = []
    answer: Answer = []
    seen: set[frozenset[tuple[str, str | None]]] = set()
    records = 0
    for one in asked:
        yield
        key = frozenset(one.entity)
        if key in seen:
            continue
        seen.add(key)
        try:
            if counts[key] > 1:
                raise _bad(f"Ignoring duplicate entity {_shown(one.entity)}")
            change = _alter(image, one)
        except Refusal as refusal:
            answer.append((one, refusal.outcome))
            continue
        if change is not None:
            changes.append(change)
            records += len(change.values)
        answer.append((one, DONE))
    if records > RECORDS_MAX:
        return Decision([], [(one, TOO_LARGE) for one, _ in answer])
    return Decision(changes, answer)


def _alter(image: Image, one: AlterQuotas) -> ClientQuotasChanged | None:
    entity = _entity(one.entity)
    keys = (CONNECTION,) if entity[0][0] == IP else CLIENT_KEYS
    current = image.quotas.get(entity, {})
    changed: dict[str, float | None] = {}
    for key, value in one.operations:
        if key in changed:
            raise _bad(f"Duplicate quota key {key} not updating quota for this entity {_shown(one.entity)}")
        changed[key] = value
        if value is not None:
            _check(keys, key, value)
    changed = {key: value for key, value in changed.items() if current.get(key) != value}
    return ClientQuotasChanged(entity, changed) if changed else None


def _entity(parts: Sequence[tuple[str, str | None]]) -> QuotaEntity:
    if not parts:
        raise _bad("Invalid empty client quota entity")
    names: dict[str, str | None] = {}
    for kind, name in parts[: len(TYPES) + 1]:
        if kind in names:
            raise _bad(f"Invalid client quota entity, duplicate entity entry {kind}")
        if kind not in TYPES:
            raise _bad(f"Unhandled client quota entity type: {kind}")
        if name is not None and not name:
            raise _bad(f"Empty {kind} not supported")
        if name is not None and len(name.encode()) > NAME_BYTES_MAX:
            raise _bad(f"The name of a {kind} may have {NAME_BYTES_MAX} bytes at most")
        names[kind] = name
    if IP in names:
        if len(names) > 1:
            raise _bad(
                "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
            )
        _check_address(names[IP])
    return ordered(names)


def _check_address(name: str | None) -> None:
    if name is None:
        return
    try:
        address_of(name)
    except ValueError:
        # Kafka looks names up as well. What a name leads to may be another address on each broker.
        raise _bad(f"{name} is not a valid IP address; names of hosts are not looked up") from None


def _check(keys: Sequence[str], key: str, value: float) -> None:
    if key not in keys:
        raise _bad(f"Invalid configuration key {key}")
    if not value > 0:
        raise _bad(f"Quota {key} must be greater than 0")
    if math.isinf(value):
        raise _bad(f"Quota {key} must be a number; remove it for no limit")
    greatest = WHOLE_NUMBERS.get(key)
    if greatest is not None:
        if value > greatest:
            size = "an INT" if key == CONNECTION else "a LONG"
            raise _bad(f"Proposed value for {key} is too large for {size}.")
        if value != math.floor(value):
            raise _bad(f"{key} cannot be a fractional value.")


def _shown(parts: Sequence[tuple[str, str | None]]) -> str:
    return ", ".join(f"the default {kind}" if name is None else f"{kind} {name}" for kind, name in parts)


def _bad(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)
