"""Decides whether a client may do something, by the ACLs of the metadata: as Kafka's StandardAuthorizer.

    super user                  allowed, also before the metadata is there
    an ACL denies               refused
    an ACL allows               allowed
    the resource has no ACL     allow.everyone.if.no.acl.found decides
    otherwise                   refused

Decisions are remembered for all connections of a principal from one host, until ACLs change: then every
memory is emptied, in place, and every session is told (`rights_changed`), as other decisions were built on
these (a repeated Produce). A session finds its memory with one look at `session.decisions`.

Invariant: a decision never outlives the ACLs that it was made by. The index follows the image in the same
turn of the loop in which the image becomes the current one.

Not here: which operation a request needs (handlers/), what the ACLs say (common/access).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol
from weakref import WeakValueDictionary

from moldau.broker.metadata.changes import AclsCreated, AclsDeleted, Change
from moldau.broker.metadata.image import Image
from moldau.common.access.acl_index import AclIndex, plain_host
from moldau.common.protocol.acls import Acl, Acls
from moldau.common.protocol.operations import OPERATIONS_OF, ResourceType

DECISIONS_MAX = 100_000
"""So many decisions are remembered; then all are forgotten. One takes some 200 bytes ..."""
REMEMBERED_CHARACTERS_MAX = 249
"""... as decisions about longer names are made each time: a client may ask for any name of up to 32 KB."""


class Decisions(dict[Any, bool]):
    """What was decided for one principal from one host. It lives as long as one of their sessions."""

    __slots__ = ("__weakref__",)


class Client(Protocol):
    """What an authorizer knows of a session."""

    principal: str
    client_host: str
    client_id: str
    listener: str
    decisions: Decisions | None


class Audit(Protocol):
    """Who is told of decisions."""

    allowed_too: bool
    """Whether it wants to hear of operations that were allowed."""

    def decided(
        self, client: Client, operation: int, resource_type: int, name: str, *, allowed: bool
    ) -> None:
        """Write down the decision."""


class Authorizer:
    """Who may do what on this broker."""

    def __init__(
        self,
        *,
        super_users: Iterable[str] = (),
        allow_everyone: bool = False,
        audit: Audit | None = None,
        rights_changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`super_users`: principals that may do everything. `allow_everyone`: of resources without ACLs.
        `rights_changed` is called after every change.
        """
        self.super_users = frozenset(super_users)
        self.allow_everyone = allow_everyone
        self.audit = audit
        self.rights_changed = rights_changed
        self._index: AclIndex | None = None  # until the metadata is there
        self._indexed: Acls | None = None
        self._known: WeakValueDictionary[tuple[str, str], Decisions] = WeakValueDictionary()
        self._room = DECISIONS_MAX

    def allows(
        self, session: Client, operation: int, resource_type: int, name: str, *, quiet: bool = False
    ) -> bool:
        """Whether the session's client may do this. `quiet`: it did not ask for the resource by name (a list
        of all topics is filtered, or its rights are shown), so that the audit is not told.
        """
        decisions = session.decisions
        if decisions is None:
            decisions = self._decisions(session)
        key = (operation, resource_type, name)
        allowed = decisions.get(key)
        if allowed is None:
            allowed = self._decide(session.principal, session.client_host, *key)
            if len(name) <= REMEMBERED_CHARACTERS_MAX:
                self._remember(decisions, key, allowed)
        if not quiet and self.audit is not None and (not allowed or self.audit.allowed_too):
            self.audit.decided(session, operation, resource_type, name, allowed=allowed)
        return allowed

    def allows_any_resource(
        self, session: Client, operation: int, resource_type: int, *, quiet: bool = False
    ) -> bool:
        """Whether there may be a resource of this type on which the client may do this (KIP-679)."""
        decisions = session.decisions
        if decisions is None:
            decisions = self._decisions(session)
        key = (operation, resource_type)
        allowed = decisions.get(key)
        if allowed is None:
            allowed = self._decide_for_some(session, operation, resource_type)
            self._remember(decisions, key, allowed)
        if not quiet and self.audit is not None and (not allowed or self.audit.allowed_too):
            self.audit.decided(session, operation, resource_type, "", allowed=allowed)
        return allowed

    def authorized_operations(self, session: Client, resource_type: ResourceType, name: str) -> int:
        """The operations that the client may do on the resource, as bits (KIP-430)."""
        return sum(
            1 << each
            for each in OPERATIONS_OF[resource_type]
            if self.allows(session, each, resource_type, name, quiet=True)
        )

    # Decisions

    def _decide(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        if principal in self.super_users:
            return True
        if self._index is None:
            return False
        denied, allowed = self._index.verdict(principal, plain_host(host), operation, resource_type, name)
        if denied or allowed:
            return not denied
        return self.allow_everyone and not self._index.has_any(resource_type, name)

    def _decide_for_some(self, session: Client, operation: int, resource_type: int) -> bool:
        # Kafka asks for a resource of this name first; it is how super users, and everyone where no ACL is
        # found, are let through.
        if self._decide(session.principal, session.client_host, operation, resource_type, "hardcode"):
            return True
        host = plain_host(session.client_host)
        index = self._index
        return index is not None and index.allows_some(session.principal, host, operation, resource_type)

    def _decisions(self, session: Client) -> Decisions:
        """The memory of the session's principal and host, from now on at hand."""
        key = (session.principal, session.client_host)
        decisions = self._known.get(key)
        if decisions is None:
            decisions = self._known[key] = Decisions()
        session.decisions = decisions
        return decisions

    def _remember(self, decisions: Decisions, key: object, allowed: bool) -> None:
        if not self._room:
            self._forget()
        self._room -= 1
        decisions[key] = allowed

    def _forget(self) -> None:
        """Empty the memories, which sessions hold."""
        for decisions in self._known.values():
            decisions.clear()
        self._room = DECISIONS_MAX

    # Metadata

    def image_changed(self, old: Image, new: Image, changes: Sequence[Change]) -> None:
        """Subscriber of the metadata: the ACLs are those of `new` from now on."""
        if new.acls is self._indexed:
            return
        index, self._index = self._index, None  # should this fail, everything is refused
        self._forget()
        try:
            if index is None or self._indexed is not old.acls:
                index = AclIndex(new.acls)
            else:
                for acl in _touched(changes):
                    was, now = acl in old.acls, acl in new.acls
                    if was != now:
                        (index.add if now else index.remove)(acl)
            self._index, self._indexed = index, new.acls
        finally:
            self.rights_changed()


def _touched(changes: Sequence[Change]) -> Iterable[Acl]:
    return dict.fromkeys(
        acl for change in changes if isinstance(change, AclsCreated | AclsDeleted) for acl in change.acls
    )
