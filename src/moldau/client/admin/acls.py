"""ACLs: found by a filter, created, and deleted by filters."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from moldau.client.admin.problem import check
from moldau.client.admin.routing import ask_any, ask_controller
from moldau.client.cluster import Cluster
from moldau.common.protocol.acls import Acl, AclFilter
from moldau.common.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from moldau.common.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from moldau.common.protocol.messages.describe_acls import DescribeAclsRequest

_CREATED_AT_ONCE = 1_000
_FILTER = (
    "resource_type_filter",
    "resource_name_filter",
    "pattern_type_filter",
    "principal_filter",
    "host_filter",
    "operation",
    "permission_type",
)
_CREATION = (
    "resource_type",
    "resource_name",
    "resource_pattern_type",
    "principal",
    "host",
    "operation",
    "permission_type",
)
"""The fields of a request's row, in the order of Acl and AclFilter."""
_RESOURCE = attrgetter("resource_type", "resource_name", "pattern_type")
_RULE = attrgetter("principal", "host", "operation", "permission_type")


def find_acls(cluster: Cluster, wanted: AclFilter) -> list[Acl]:
    """The ACLs that match, in order."""
    answer = ask_any(cluster, DescribeAclsRequest(**_fields(_FILTER, wanted)), "read ACLs")
    check(answer.error_code, answer.error_message)
    return sorted(
        Acl(*_RESOURCE(resource), *_RULE(each)) for resource in answer.resources for each in resource.acls
    )


def create_acls(cluster: Cluster, acls: Sequence[Acl]) -> None:
    """Create them. KafkaProblem for the first that is refused; others may have been made."""
    for start in range(0, len(acls), _CREATED_AT_ONCE):
        some = acls[start : start + _CREATED_AT_ONCE]
        request = CreateAclsRequest(creations=[AclCreation(**_fields(_CREATION, each)) for each in some])
        answer = ask_controller(
            cluster, request, lambda got: [each.error_code for each in got.results], "create ACLs"
        )
        for result in answer.results:
            check(result.error_code, result.error_message)


def delete_acls(cluster: Cluster, filters: Sequence[AclFilter]) -> list[Acl]:
    """Delete what filters match; what was deleted, in order. KafkaProblem for the first that is refused."""
    answer = ask_controller(
        cluster,
        DeleteAclsRequest(filters=[DeleteAclsFilter(**_fields(_FILTER, each)) for each in filters]),
        lambda got: [each.error_code for each in got.filter_results],
        "delete ACLs",
    )
    gone: dict[Acl, None] = {}
    for result in answer.filter_results:
        check(result.error_code, result.error_message)
        for row in result.matching_acls:
            check(row.error_code, row.error_message)
            gone[Acl(*_RESOURCE(row), *_RULE(row))] = None
    return sorted(gone)


def _fields(names: Sequence[str], acl: Acl | AclFilter) -> dict[str, Any]:
    return dict(zip(names, acl, strict=True))
