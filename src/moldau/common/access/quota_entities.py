"""What quotas are set for, and which of eight levels decides about a client.

An entity is a user, a client id, both, or an address; each by name, or the default for those without a quota
of their own. It is a tuple of (type, name), with None for the default:

    (("user", "alice"), ("client-id", None))       alice, with any client id that has no quota of its own

Each quota of a client is looked up by itself, in this order (as in Kafka):

    user and client id    user and default client id    user
    default user and client id    default user and default client id    default user
    client id    default client id

The level also says with whom a client shares its quota. That of a user is shared by all of her connections;
that of a client id by all users who bear it; a default is nobody's own: each user or client id has it whole.

A client without a client id has the default of client ids. (In Kafka it may have none at all, which was a way
around every quota of client ids.)
"""

import ipaddress
from collections.abc import Iterable, Mapping

QuotaEntity = tuple[tuple[str, str | None], ...]
"""What a quota is set for: (type, name) of a user, a client id, both, or an address; None for the default."""
Quotas = Mapping[QuotaEntity, Mapping[str, float]]

USER, CLIENT_ID, IP = "user", "client-id", "ip"
TYPES = (USER, CLIENT_ID, IP)

PRODUCE = "producer_byte_rate"
FETCH = "consumer_byte_rate"
REQUEST = "request_percentage"
MUTATION = "controller_mutation_rate"
CLIENT_KEYS = (PRODUCE, FETCH, REQUEST, MUTATION)
CONNECTION = "connection_creation_rate"

WHOLE_NUMBERS = {PRODUCE: 2.0**63 - 1, FETCH: 2.0**63 - 1, CONNECTION: 2.0**31 - 1}
"""The quotas that must be whole, and the most that each may be."""

MeterKey = tuple[str | None, str | None]
"""Who shares a quota: the user, the client id, None for the one that plays no part."""

_Level = tuple[str | None, str | None]
_ABSENT = ""  # no user and no client id of an entity has an empty name


def ordered(parts: Mapping[str, str | None]) -> QuotaEntity:
    """The entity with these names by type."""
    return tuple((kind, parts[kind]) for kind in TYPES if kind in parts)


def user_of(principal: str) -> str:
    """The name that quotas know a principal (`User:alice`) by."""
    return principal.partition(":")[2]


def address_of(host: str) -> str:
    """An address in the form in which addresses are compared: an IPv6 one is written in several ways, and
    ::ffff:10.0.0.1 is 10.0.0.1. ValueError when it is none."""
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


class LimitTable:
    """The limits of all clients for one kind of quota."""

    __slots__ = ("_key", "_limits")

    def __init__(self, quotas: Quotas, key: str) -> None:
        self._key = key
        self._limits: dict[_Level, float] = {}
        for entity, values in quotas.items():
            if key in values:
                self._set(entity, values[key])

    def changed(self, quotas: Quotas, entities: Iterable[QuotaEntity]) -> "LimitTable":
        """The table of `quotas`, which differ from this table's in these entities only. It takes over what
        this one has, which must not be asked any more."""
        table = LimitTable({}, self._key)
        table._limits = self._limits
        for entity in entities:
            table._set(entity, quotas.get(entity, {}).get(self._key))
        return table

    def _set(self, entity: QuotaEntity, limit: float | None) -> None:
        parts = dict(entity)
        if IP in parts:
            return
        level = (parts.get(USER, _ABSENT), parts.get(CLIENT_ID, _ABSENT))
        if limit is None:
            self._limits.pop(level, None)
        else:
            self._limits[level] = limit

    def __bool__(self) -> bool:
        return bool(self._limits)

    def of_client(self, user: str, client_id: str) -> tuple[MeterKey, float] | None:
        """The limit of a client, and with whom it is shared; None: there is none."""
        decided = self.decides(user, client_id)
        return None if decided is None else decided[1:]

    def decides(self, user: str, client_id: str) -> tuple[QuotaEntity, MeterKey, float] | None:
        """The entity whose quota holds for a client, with whom it is shared, and the limit."""
        limits = self._limits
        if not limits:
            return None
        for level in (
            (user, client_id or None),
            (user, None),
            (user, _ABSENT),
            (None, client_id or None),
            (None, None),
            (None, _ABSENT),
            (_ABSENT, client_id or None),
            (_ABSENT, None),
        ):
            limit = limits.get(level)
            if limit is not None:
                who = None if level[0] == _ABSENT else user
                what = None if level[1] == _ABSENT else client_id
                parts = {USER: level[0], CLIENT_ID: level[1]}
                entity = ordered({kind: name for kind, name in parts.items() if name != _ABSENT})
                return entity, (who, what), limit
        return None

    def of_meter(self, key: MeterKey) -> float | None:
        """The limit of those who share `key`; None: there is none any more at their level."""
        user, client_id = key
        users = (_ABSENT,) if user is None else (user, None)
        client_ids = (_ABSENT,) if client_id is None else (client_id or None, None)
        for one in users:
            for other in client_ids:
                limit = self._limits.get((one, other))
                if limit is not None:
                    return limit
        return None


class AddressTable:
    """The rates of new connections by address."""

    __slots__ = ("_default", "_limits")

    def __init__(self, quotas: Quotas) -> None:
        self._limits: dict[str, float] = {}
        self._default: float | None = None
        for entity, values in quotas.items():
            limit = values.get(CONNECTION)
            if limit is None:
                continue
            name = dict(entity).get(IP)
            if name is None:
                self._default = limit
            else:
                self._limits[address_of(name)] = limit

    def __bool__(self) -> bool:
        return bool(self._limits) or self._default is not None

    def of(self, address: str) -> float | None:
        """The limit of an address (`address_of`); None: there is none."""
        return self._limits.get(address, self._default)
