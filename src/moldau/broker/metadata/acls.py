"""One ACL, as the metadata holds it: numbers and texts of the Kafka protocol.

The image has them as the keys of a mapping: an ACL has no identity but its fields, so creating one twice
leaves one. What the numbers mean: protocol/operations.py, and who may do what by them: security/acl_index.py.
"""

from collections.abc import Mapping
from typing import NamedTuple


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
