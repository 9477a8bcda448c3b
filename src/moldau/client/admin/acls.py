"""ACLs: found by a filter, created, and deleted by a filter.

`describe`, `create` and `delete` take an `Ask`, which sends one request and gives its response: a command may
have another connection than a `Cluster`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from moldau.client.admin.problem import check
from moldau.client.admin.routing import ask_any, ask_controller
from moldau.client.cluster import Cluster
from moldau.common.protocol.acls import Acl, AclFilter
from moldau.common.protocol.declare import Message
from moldau.common.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from moldau.common.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
)
from moldau.common.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

Ask = Callable[[Message], Any]
_CREATED_AT_ONCE = 1_000


def find_acls(cluster: Cluster, wanted: AclFilter) -> list[Acl]:
    """The ACLs that match, in order."""
    return sorted(describe(lambda request: ask_any(cluster, request, "read ACLs"), wanted))


def create_acls(cluster: Cluster, acls: Sequence[Acl]) -> None:
    """Create them; KafkaProblem if one of them failed."""

    def ask(request: Message) -> Any:
        return ask_controller(
            cluster, request, lambda got: [each.error_code for each in got.results], "create ACLs"
        )

    create(ask, acls)


def delete_acls(cluster: Cluster, wanted: AclFilter) -> list[Acl]:
    """Delete what matches, and return it in order."""

    def ask(request: Message) -> Any:
        return ask_controller(
            cluster, request, lambda got: [each.error_code for each in got.filter_results], "delete ACLs"
        )

    return sorted(delete(ask, [wanted]))


def describe(ask: Ask, wanted: AclFilter) -> list[Acl]:
    """The ACLs that a filter matches, in the broker's order."""
    answer = ask(_describe_request(wanted))
    check(answer.error_code, answer.error_message)
    return _described(answer)


def create(ask: Ask, acls: Sequence[Acl]) -> None:
    """Create ACLs. KafkaProblem for the first that is refused; others may have been made."""
    for start in range(0, len(acls), _CREATED_AT_ONCE):
        for result in ask(_create_request(acls[start : start + _CREATED_AT_ONCE])).results:
            check(result.error_code, result.error_message)


def delete(ask: Ask, filters: Sequence[AclFilter]) -> list[Acl]:
    """Delete what filters match; what was deleted. KafkaProblem for the first that is refused."""
    gone: dict[Acl, None] = {}
    for result in ask(_delete_request(filters)).filter_results:
        check(result.error_code, result.error_message)
        for row in result.matching_acls:
            check(row.error_code, row.error_message)
            gone[_deleted(row)] = None
    return list(gone)


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
