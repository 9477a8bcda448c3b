"""ACLs, and filters of them: numbers and texts of the Kafka protocol, as the metadata and requests have them.

An ACL has no identity but its fields, so creating one twice leaves one. What the numbers mean: operations.py.
A filter of DescribeAcls and DeleteAcls matches (KIP-290), by its pattern type:

    LITERAL, PREFIXED   ACLs of that pattern type; the name, if given, is that of the pattern
    ANY                 the same, of both types
    MATCH               ACLs that apply to the resource of this name: its own, that for `*`, and every prefix

Everything else is compared as it is: a filter for `User:alice` does not match an ACL for `User:*`, and one
for READ none for ALL. A filter that says everything is one lookup; any other is a walk through all ACLs, in
steps.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import NamedTuple

from moldau.common.protocol.operations import WILDCARD, Operation, PatternType, Permission, ResourceType

ACLS_A_STEP = 200


class Acl(NamedTuple):
    """A principal may (or may not) do something to the resources of a pattern, from a host."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    """type:name, as in `User:alice`."""
    host: str
    """An address, a network (CIDR), or `*`."""
    operation: int
    permission: int


Acls = Mapping[Acl, None]
"""All ACLs, in the order in which they were created."""


class AclFilter(NamedTuple):
    """None and ANY match everything."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def complaint(self) -> str | None:
        """Why this is no filter; None if it is one."""
        for text, value, kind in (
            ("resourceType", self.resource_type, ResourceType),
            ("patternType", self.pattern_type, PatternType),
            ("operation", self.operation, Operation),
            ("permissionType", self.permission, Permission),
        ):
            if value not in kind.__members__.values() or value == 0:
                return f"Unknown {text} {value}"
        return None

    def matches(self, acl: Acl) -> bool:
        """Whether the filter matches the ACL."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and (self.principal is None or self.principal == acl.principal)
            and (self.host is None or self.host == acl.host)
            and self._matches_pattern(acl)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        name = self.resource_name
        if self.pattern_type in (acl.pattern_type, PatternType.ANY):
            return name is None or name == acl.resource_name
        if self.pattern_type != PatternType.MATCH:
            return False
        if name is None:
            return True
        if acl.pattern_type == PatternType.PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.resource_name in (name, WILDCARD)

    def exact(self) -> Acl | None:
        """The only ACL that can match, if there is but one."""
        if (
            self.resource_name is None
            or self.principal is None
            or self.host is None
            or self.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED)
            or self.resource_type == ResourceType.ANY
            or self.operation == Operation.ANY
            or self.permission == Permission.ANY
        ):
            return None
        return Acl(*self)  # type: ignore[arg-type]

    def found(self, acls: Acls) -> Generator[None, None, list[Acl]]:
        """The ACLs that the filter matches, in steps."""
        exact = self.exact()
        if exact is not None:
            return [exact] if exact in acls else []
        matching = []
        for number, acl in enumerate(acls):
            if number % ACLS_A_STEP == 0:
                yield
            if self.matches(acl):
                matching.append(acl)
        return matching


EVERYTHING = AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY)
