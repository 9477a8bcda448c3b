"""Rights on mirrored topics follow the source's, as MirrorMaker's do: never Write, and All becomes Read.

Only ACLs that name a mirrored topic itself: a prefix covers other topics here than there. What is taken away
at the source stays here, since nobody could tell it from what was given here.
"""

from collections.abc import Iterable, Mapping

from moldau.broker.mirror.source import SourceCluster
from moldau.broker.peers.peers import PeerError, Unsupported
from moldau.common.protocol.acls import Acl
from moldau.common.protocol.errors import ErrorCode, error_name
from moldau.common.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from moldau.common.protocol.operations import Operation, PatternType, Permission, ResourceType

_READERS = frozenset({Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS})


async def source_acls(source: SourceCluster) -> list[Acl]:
    """The ACLs that name a topic there; none where there is no authorizer. PeerError, also for want of the
    right to see them.
    """
    request = DescribeAclsRequest(
        resource_type_filter=ResourceType.TOPIC,
        resource_name_filter=None,
        pattern_type_filter=PatternType.LITERAL,
        principal_filter=None,
        host_filter=None,
        operation=Operation.ANY,
        permission_type=Permission.ANY,
    )
    try:
        answer: DescribeAclsResponse = await source.ask_any(request)
    except Unsupported:  # before 2.0
        return []
    if answer.error_code == ErrorCode.SECURITY_DISABLED:
        return []
    if answer.error_code:
        raise PeerError(f"the source answered {error_name(answer.error_code)} when asked for its ACLs")
    return [
        Acl(
            row.resource_type,
            row.resource_name,
            row.pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for row in answer.resources
        for each in row.acls
    ]


def acls_here(there: Iterable[Acl], local: Mapping[str, str]) -> list[Acl]:
    """What these ACLs of the source are here; `local`: from a topic's name there to that here."""
    found: dict[Acl, None] = {}
    for acl in there:
        name = local.get(acl.resource_name)
        operation = Operation.READ if acl.operation == Operation.ALL else acl.operation
        literal = (ResourceType.TOPIC, PatternType.LITERAL)
        if name is not None and operation in _READERS and (acl.resource_type, acl.pattern_type) == literal:
            found[acl._replace(resource_name=name, operation=int(operation))] = None
    return list(found)
