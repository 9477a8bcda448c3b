"""Answers from ACLs: which of them decides about an operation, in time that does not grow with their number.

    principal -> resource type -> literal name -> host -> operations allowed, operations denied (bits)
                               -> prefix       -> host -> ...

A question looks at the client's own principal and at `User:*`; of each, at the literal name, at `*`, and at
one prefix of the name for each length that prefixes of that principal have. Hosts are one lookup, and one for
`*`; networks (CIDR) are one for each size that networks of that pattern have.

Invariants, as Kafka's authorizer has them:
* one ACL that denies outweighs all that allow;
* only a literal pattern named exactly `*` stands for all names; elsewhere `*` is a character;
* principals are compared whole; `User:*` is about everyone, whatever the type of their principal.

Kafka's walk through its ACLs does not see `*` where a resource's own name begins with a star; here it is all
names. Networks are ours, too: for Kafka a host is one address or `*`. Addresses are compared as addresses:
Kafka writes `0:0:0:0:0:0:0:1`, others `::1`.

Not here: super users, what holds where there is no ACL, the memory of decisions (authorizer.py).
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Generic, NamedTuple, TypeVar

from moldau.common.protocol.acls import Acl
from moldau.common.protocol.operations import (
    ALLOWED_BY,
    ANY_USER,
    DENIED_BY,
    WILDCARD,
    Operation,
    PatternType,
    Permission,
)

Shift = tuple[int, int]
"""A size of networks: the version of IP, and how many bits of an address are not the network's."""
Network = tuple[Shift, int]
"""A network: its size, and the bits that its addresses have in common."""
T = TypeVar("T")


def plain_host(host: str) -> str:
    """An address as it is compared: the shortest form, IPv4 instead of IPv4 in IPv6. Other texts as they
    are."""
    if ":" not in host:
        return host
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


def network_of(host: str) -> IPv4Network | IPv6Network | None:
    """The network that an ACL's host names (`10.0.0.0/8`); None if it is no network."""
    if "/" not in host:
        return None
    try:
        return ip_network(host, strict=False)
    except ValueError:
        return None


class _Hosts:
    """The operations of one pattern, by host: (allowed, denied) as bits.

    Hosts that are written differently may be the same; `twins` counts the ACLs beyond the first that say the
    same thing.
    """

    __slots__ = ("masks", "networks", "twins")

    def __init__(self) -> None:
        self.masks: dict[str | Network, tuple[int, int]] = {}
        self.networks: dict[Shift, int] = {}  # how many networks have it
        self.twins: dict[tuple[str | Network, int], int] = {}

    def change(self, acl: Acl, *, add: bool) -> bool:
        """Add or remove one ACL; whether any is left."""
        network = network_of(acl.host)
        key: str | Network = plain_host(acl.host) if network is None else _key(network)
        held = self.masks
        if key not in held:
            self._count(key, 1)
        allowed, denied = held.get(key, (0, 0))
        is_denial, bit = acl.permission == Permission.DENY, 1 << acl.operation
        twin = (key, -bit if is_denial else bit)
        count = self.twins.get(twin, 0)
        if add and (denied if is_denial else allowed) & bit:
            self.twins[twin] = count + 1
        elif not add and count:
            self.twins[twin] = count - 1
        elif is_denial:
            held[key] = (allowed, denied | bit if add else denied & ~bit)
        else:
            held[key] = (allowed | bit if add else allowed & ~bit, denied)
        if held.get(key) == (0, 0):
            del held[key]
            self._count(key, -1)
        return bool(held)

    def _count(self, key: str | Network, more: int) -> None:
        if isinstance(key, str):
            return
        count = self.networks[key[0]] = self.networks.get(key[0], 0) + more
        if not count:
            del self.networks[key[0]]

    def found(self, host: str) -> tuple[int, int]:
        """The operations allowed and denied to this host."""
        allowed = denied = 0
        for key in (host, WILDCARD):
            masks = self.masks.get(key)
            if masks is not None:
                allowed |= masks[0]
                denied |= masks[1]
        if self.networks:
            for network in _containing(self.networks, host):
                masks = self.masks.get(network)
                if masks is not None:
                    allowed |= masks[0]
                    denied |= masks[1]
        return allowed, denied


def _key(network: IPv4Network | IPv6Network) -> Network:
    shift = network.max_prefixlen - network.prefixlen
    return (network.version, shift), int(network.network_address) >> shift


def _containing(sizes: Iterable[Shift], host: str) -> Iterator[Network]:
    """The networks of these sizes that the host is in."""
    try:
        address = ip_address(host)
    except ValueError:
        return
    number, version = int(address), address.version
    for size in sizes:
        if size[0] == version:
            yield size, number >> size[1]


class _Names(Generic[T]):
    """Patterns of one resource type: literal ones by name, prefixed ones by prefix."""

    __slots__ = ("lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, T] = {}
        self.prefixed: dict[str, T] = {}
        self.lengths: dict[int, int] = {}  # of prefixes: how many have it, by length

    def __bool__(self) -> bool:
        return bool(self.literal or self.prefixed)

    def get(self, acl: Acl) -> T | None:
        """What is held for the ACL's pattern."""
        return (self.prefixed if _is_prefix(acl) else self.literal).get(acl.resource_name)

    def put(self, acl: Acl, value: T) -> None:
        """Hold this for the ACL's pattern."""
        name = acl.resource_name
        if not _is_prefix(acl):
            self.literal[name] = value
            return
        if name not in self.prefixed:
            self.lengths[len(name)] = self.lengths.get(len(name), 0) + 1
        self.prefixed[name] = value

    def drop(self, acl: Acl) -> None:
        """Hold nothing for the ACL's pattern, which is held, any more."""
        name = acl.resource_name
        if not _is_prefix(acl):
            del self.literal[name]
            return
        del self.prefixed[name]
        self.lengths[len(name)] -= 1
        if not self.lengths[len(name)]:
            del self.lengths[len(name)]

    def matching(self, name: str) -> Iterator[T]:
        """What is held for the patterns that the name matches."""
        for key in (name, WILDCARD) if name != WILDCARD else (name,):
            value = self.literal.get(key)
            if value is not None:
                yield value
        prefixed, size = self.prefixed, len(name)
        for length in self.lengths:
            if length <= size:
                value = prefixed.get(name[:length])
                if value is not None:
                    yield value


def _is_prefix(acl: Acl) -> bool:
    return acl.pattern_type == PatternType.PREFIXED


class Verdict(NamedTuple):
    """What ACLs say: whether one denies, whether one allows."""

    denied: bool
    allowed: bool


class AclIndex:
    """All ACLs, by who they are about."""

    def __init__(self, acls: Iterable[Acl] = ()) -> None:
        self._held: dict[str, dict[int, _Names[_Hosts]]] = {}
        self._counts: dict[int, _Names[int]] = {}  # of all ACLs, whoever they are about
        self._said: Counter[tuple[str, int, int, int]] = Counter()
        """How many ACLs of a principal and a resource type allow, or deny, an operation."""
        for acl in acls:
            self.add(acl)

    def add(self, acl: Acl) -> None:
        """One more ACL, which is not in the index."""
        names = self._held.setdefault(acl.principal, {}).setdefault(acl.resource_type, _Names())
        hosts = names.get(acl)
        if hosts is None:
            hosts = _Hosts()
            names.put(acl, hosts)
        hosts.change(acl, add=True)
        self._said[acl.principal, acl.resource_type, acl.permission, acl.operation] += 1
        counts = self._counts.setdefault(acl.resource_type, _Names())
        counts.put(acl, (counts.get(acl) or 0) + 1)

    def remove(self, acl: Acl) -> None:
        """One ACL less, which is in the index."""
        types = self._held[acl.principal]
        names = types[acl.resource_type]
        hosts = names.get(acl)
        assert hosts is not None
        if not hosts.change(acl, add=False):
            names.drop(acl)
            if not names:
                del types[acl.resource_type]
                if not types:
                    del self._held[acl.principal]
        said = (acl.principal, acl.resource_type, acl.permission, acl.operation)
        self._said[said] -= 1
        if not self._said[said]:
            del self._said[said]
        counts = self._counts[acl.resource_type]
        count = counts.get(acl)
        assert count is not None
        if count > 1:
            counts.put(acl, count - 1)
        else:
            counts.drop(acl)

    def verdict(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> Verdict:
        """What the ACLs say about the operation; `host` as `plain_host` gives it."""
        allowed_by, denied_by = ALLOWED_BY[operation], DENIED_BY[operation]
        allowed = False
        for names in self._about(principal, resource_type):
            for hosts in names.matching(name):
                can, cannot = hosts.found(host)
                if cannot & denied_by:
                    return Verdict(True, allowed)
                if can & allowed_by:
                    allowed = True
        return Verdict(False, allowed)

    def has_any(self, resource_type: int, name: str) -> bool:
        """Whether there is any ACL for the resource, whoever it is about."""
        counts = self._counts.get(resource_type)
        return counts is not None and next(counts.matching(name), None) is not None

    def allows_some(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Whether there may be a resource of the type for which the ACLs allow the operation (KIP-679): a
        pattern that allows, and that no denial covers. Implied operations do not count, as in Kafka.

        Patterns are looked through only if some ACL allows the operation at all, until one is found; and all
        of them, for denials, only if there is one.
        """
        if not self._says(principal, resource_type, Permission.ALLOW, operation):
            return False
        bits = DENIED_BY[operation]
        about = list(self._about(principal, resource_type))
        literal_denied: set[str] = set()
        prefix_denied: set[str] = set()
        if self._says(principal, resource_type, Permission.DENY, operation):
            literal_denied, prefix_denied = _denied(about, host, bits)
        if WILDCARD in literal_denied:
            return False
        for names in about:
            for name, hosts in names.literal.items():
                if hosts.found(host)[0] & bits and (
                    name == WILDCARD or not (name in literal_denied or _covered(name, prefix_denied))
                ):
                    return True
            for prefix, hosts in names.prefixed.items():
                if hosts.found(host)[0] & bits and not _covered(prefix, prefix_denied):
                    return True
        return False

    def _says(self, principal: str, resource_type: int, permission: int, operation: int) -> bool:
        """Whether any ACL about the principal, or everyone, allows or denies the operation by its name."""
        return any(
            (who, resource_type, permission, each) in self._said
            for who in (principal, ANY_USER)
            for each in (operation, Operation.ALL)
        )

    def _about(self, principal: str, resource_type: int) -> Iterator[_Names[_Hosts]]:
        for who in (principal, ANY_USER) if principal != ANY_USER else (principal,):
            types = self._held.get(who)
            names = None if types is None else types.get(resource_type)
            if names is not None:
                yield names


def _denied(about: Iterable[_Names[_Hosts]], host: str, bits: int) -> tuple[set[str], set[str]]:
    """The literal names and the prefixes for which an ACL denies these operations to the host."""
    literal: set[str] = set()
    prefixed: set[str] = set()
    for names in about:
        literal.update(name for name, hosts in names.literal.items() if hosts.found(host)[1] & bits)
        prefixed.update(name for name, hosts in names.prefixed.items() if hosts.found(host)[1] & bits)
    return literal, prefixed


def _covered(name: str, prefixes: set[str]) -> bool:
    return bool(prefixes) and any(name[:size] in prefixes for size in range(1, len(name) + 1))
