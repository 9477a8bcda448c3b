"""ACLs: found by a filter, created, and deleted by filters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from moldau.client.admin.problem import check
from moldau.client.admin.routing import ask_any, ask_controller
from moldau.client.cluster import Cluster
from moldau.common.protocol.acls import Acl, AclFilter
from moldau.common.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from moldau.common.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
)
from moldau.common.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

_CREATED_AT_ONCE = 1_000


def find_acls(cluster: Cluster, wanted: AclFilter) -> list[Acl]:
    """The ACLs that match, in order."""
    answer = ask_any(cluster, _describe_request(wanted), "read ACLs")
    check(answer.error_code, answer.error_message)
    return sorted(_described(answer))


def create_acls(cluster: Cluster, acls: Sequence[Acl]) -> None:
    """Create them. KafkaProblem for the first that is refused; others may have been made."""
    for start in range(0, len(acls), _CREATED_AT_ONCE):
        request = _create_request(acls[start : start + _CREATED_AT_ONCE])
        answer = ask_controller(
            cluster, request, lambda got: [each.error_code for each in got.results], "create ACLs"
        )
        for result in answer.results:
            check(result.error_code, result.error_message)


def delete_acls(cluster: Cluster, filters: Sequence[AclFilter]) -> list[Acl]:
    """Delete what filters match; what was deleted, in order. KafkaProblem for the first that is refused."""
    answer = ask_controller(
        cluster,
        _delete_request(filters),
        lambda got: [each.error_code for each in got.filter_results],
        "delete ACLs",
    )
    gone: dict[Acl, None] = {}
    for result in answer.filter_results:
        check(result.error_code, result.error_message)
        for row in result.matching_acls:
            check(row.error_code, row.error_message)
            gone[_deleted(row)] = None
    return sorted(gone)


def _describe_request(wanted: AclFilter) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )


def _described(answer: DescribeAclsResponse) -> list[Acl]:
    return [
        Acl(
            resource.resource_type,
            resource.resource_name,
            resource.pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for resource in answer.resources
        for each in resource.acls
    ]


def _create_request(acls: Iterable[Acl]) -> CreateAclsRequest:
    return CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                resource_pattern_type=each.pattern_type,
                principal=each.principal,
                host=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in acls
        ]
    )


def _delete_request(filters: Iterable[AclFilter]) -> DeleteAclsRequest:
    return DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=each.resource_type,
                resource_name_filter=each.resource_name,
                pattern_type_filter=each.pattern_type,
                principal_filter=each.principal,
                host_filter=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in filters
        ]
    )


def _deleted(row: DeleteAclsMatchingAcl) -> Acl:
    return Acl(
        row.resource_type,
        row.resource_name,
        row.pattern_type,
        row.principal,
        row.host,
        row.operation,
        row.permission_type,
    )
