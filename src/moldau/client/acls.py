"""ACLs in the requests and responses of DescribeAcls, CreateAcls and DeleteAcls, for the commands and the
REST proxy, each of which has its own connection and its own words for refusals.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from moldau.common.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from moldau.common.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
)
from moldau.common.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


class AclRow(NamedTuple):
    """An ACL, or a filter of them, in which None and ANY match everything. The numbers are those of
    protocol/operations.py."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    """type:name, as in `User:alice`."""
    host: str | None
    operation: int
    permission: int


def describe_request(wanted: AclRow) -> DescribeAclsRequest:
    """The request for the ACLs that a filter matches."""
    return DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )


def described(answer: DescribeAclsResponse) -> list[AclRow]:
    """The ACLs of a response, in its order."""
    return [
        AclRow(
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


def create_request(acls: Iterable[AclRow]) -> CreateAclsRequest:
    """The request that creates ACLs."""
    return CreateAclsRequest(
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


def delete_request(filters: Iterable[AclRow]) -> DeleteAclsRequest:
    """The request that deletes what filters match."""
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


def deleted(row: DeleteAclsMatchingAcl) -> AclRow:
    """An ACL that DeleteAcls has deleted."""
    return AclRow(
        row.resource_type,
        row.resource_name,
        row.pattern_type,
        row.principal,
        row.host,
        row.operation,
        row.permission_type,
    )
