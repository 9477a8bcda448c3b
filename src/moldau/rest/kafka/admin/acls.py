"""ACLs: found by a filter, created, and deleted by a filter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from moldau.client.cluster import Cluster
from moldau.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from moldau.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from moldau.protocol.messages.describe_acls import DescribeAclsRequest
from moldau.rest.kafka.admin.asking import ask_any, ask_controller
from moldau.rest.kafka.problem import check


class Acl(NamedTuple):
    """An ACL, or a filter of them, in which None and ANY match everything."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int


def find_acls(cluster: Cluster, wanted: Acl) -> list[Acl]:
    """The ACLs that match, in order."""
    answer = ask_any(
        cluster,
        "read ACLs",
        DescribeAclsRequest(
            resource_type_filter=wanted.resource_type,
            resource_name_filter=wanted.resource_name,
            pattern_type_filter=wanted.pattern_type,
            principal_filter=wanted.principal,
            host_filter=wanted.host,
            operation=wanted.operation,
            permission_type=wanted.permission,
        ),
    )
    check(answer.error_code, answer.error_message)
    return sorted(
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
    )


def create_acls(cluster: Cluster, acls: Sequence[Acl]) -> None:
    """Create them; KafkaProblem if one of them failed."""
    request = CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=each.resource_type,
                resource_name=each.resource_name or "",
                resource_pattern_type=each.pattern_type,
                principal=each.principal or "",
                host=each.host or "",
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in acls
        ]
    )
    answer = ask_controller(
        cluster,
        "create ACLs",
        request,
        lambda got: next((each.error_code for each in got.results if each.error_code), 0),
    )
    for result in answer.results:
        check(result.error_code, result.error_message)


def delete_acls(cluster: Cluster, wanted: Acl) -> list[Acl]:
    """Delete what matches, and return it in order."""
    request = DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=wanted.resource_type,
                resource_name_filter=wanted.resource_name,
                pattern_type_filter=wanted.pattern_type,
                principal_filter=wanted.principal,
                host_filter=wanted.host,
                operation=wanted.operation,
                permission_type=wanted.permission,
            )
        ]
    )
    answer = ask_controller(
        cluster,
        "delete ACLs",
        request,
        lambda got: got.filter_results[0].error_code if got.filter_results else 0,
    )
    deleted = []
    for result in answer.filter_results:
        check(result.error_code, result.error_message)
        for each in result.matching_acls:
            check(each.error_code, each.error_message)
            deleted.append(
                Acl(
                    each.resource_type,
                    each.resource_name,
                    each.pattern_type,
                    each.principal,
                    each.host,
                    each.operation,
                    each.permission_type,
                )
            )
    return sorted(deleted)
