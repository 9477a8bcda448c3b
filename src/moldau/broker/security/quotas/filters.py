"""Which entities a filter of DescribeClientQuotas matches (KIP-546).

A filter has a component for each type of entity that it asks about: a name, the default, or any (the default
included). An entity matches that fits all components; with `strict` it must have no further part:

    user any                          alice, the default user, alice with client id app, ...
    user any, strict                  alice, the default user
    user alice, client-id default     alice with the default client id
    (none)                            everything; with `strict` nothing
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from moldau.common.access.quota_entities import CLIENT_ID, IP, TYPES, USER, QuotaEntity, Quotas


class BadFilter(Exception):
    """The filter cannot be meant so."""


class UnknownType(Exception):
    """The filter names a type of entity that does not exist."""


class Component(NamedTuple):
    """What a filter asks of one type: this name (None: the default), or any name."""

    name: str | None = None
    any_name: bool = False


EXACT, DEFAULT, ANY = 0, 1, 2
"""Match types, numbered as in the protocol."""


def component(components: Mapping[str, Component], kind: str, match_type: int, name: str | None) -> Component:
    """A component as the request spells it, after those that came before. BadFilter, UnknownType."""
    if not kind:
        raise BadFilter("Invalid empty entity type.")
    if kind in components:
        raise BadFilter(f"Entity type {kind} cannot appear more than once in the filter.")
    if kind not in TYPES:
        raise UnknownType(f"Unsupported entity type {kind}")
    if match_type not in (EXACT, DEFAULT, ANY):
        raise BadFilter(f"Unknown match type {match_type}")
    if match_type == EXACT and name is None:
        raise BadFilter("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    if match_type != EXACT and name is not None:
        which = "DEFAULT" if match_type == DEFAULT else "SPECIFIED"
        raise BadFilter(f"Request specified MATCH_TYPE_{which}, but also specified a match string.")
    if (kind == IP and (USER in components or CLIENT_ID in components)) or (kind != IP and IP in components):
        raise BadFilter(
            "Invalid entity filter component combination. IP filter component should not be used with "
            "user or clientId filter component."
        )
    return Component(name, match_type == ANY)


def matching(
    quotas: Quotas, components: Mapping[str, Component], *, strict: bool
) -> Iterator[tuple[QuotaEntity, Mapping[str, float]] | None]:
    """The entities that match, with their quotas; None for one that does not, so that a caller can pause."""
    if strict and not components:
        return
    for entity, values in quotas.items():
        parts = dict(entity)
        fits = all(
            kind in parts and (one.any_name or parts[kind] == one.name) for kind, one in components.items()
        )
        yield (entity, values) if fits and not (strict and len(parts) != len(components)) else None
