"""DescribeAcls, CreateAcls and DeleteAcls as commands send them, whatever connection they have.

`Ask` sends one request and gives its response. Refusals are raised as `Refusal`; each command has its own
words for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from moldau.metadata.acls import Acl
from moldau.protocol.declare import Message
from moldau.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from moldau.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from moldau.protocol.messages.describe_acls import DescribeAclsRequest
from moldau.protocol.operations import Operation, PatternType, Permission, ResourceType
from moldau.security.acl_filter import AclFilter

Ask = Callable[[Message], Any]
ACLS_AT_ONCE = 1_000
EVERYTHING = AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY)


class Refusal(Exception):
    """The broker refused; `error_code` says why, and `message` perhaps in words."""

    def __init__(self, error_code: int, message: str | None) -> None:
        super().__init__(message or "")
        self.error_code = error_code
        self.message = message


def describe(ask: Ask, wanted: AclFilter) -> list[Acl]:
    """The ACLs that a filter matches. Refusal."""
    answer = ask(
        DescribeAclsRequest(
            resource_type_filter=wanted.resource_type,
            resource_name_filter=wanted.resource_name,
            pattern_type_filter=wanted.pattern_type,
            principal_filter=wanted.principal,
            host_filter=wanted.host,
            operation=wanted.operation,
            permission_type=wanted.permission,
        )
    )
    _require(answer)
    return [
        Acl(
            one.resource_type,
            one.resource_name,
            one.pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for one in answer.resources
        for each in one.acls
    ]


def create(ask: Ask, acls: Sequence[Acl]) -> None:
    """Create ACLs. Refusal for the first that is refused; others may have been made."""
    for start in range(0, len(acls), ACLS_AT_ONCE):
        creations = [
            AclCreation(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                resource_pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in acls[start : start + ACLS_AT_ONCE]
        ]
        for result in ask(CreateAclsRequest(creations=creations)).results:
            _require(result)


def delete(ask: Ask, filters: Sequence[AclFilter]) -> list[Acl]:
    """Delete what filters match; what was deleted. Refusal for the first that is refused."""
    rows = [
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
    gone: dict[Acl, None] = {}
    for result in ask(DeleteAclsRequest(filters=rows)).filter_results:
        _require(result)
        for row in result.matching_acls:
            _require(row)
            acl = Acl(
                row.resource_type,
                row.resource_name,
                row.pattern_type,
                row.principal,
                row.host,
                row.operation,
                row.permission_type,
            )
            gone[acl] = None
    return list(gone)


def _require(row: Any) -> None:
    if row.error_code:
        raise Refusal(row.error_code, row.error_message)
