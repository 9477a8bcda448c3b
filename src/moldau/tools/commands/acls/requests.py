"""DescribeAcls, CreateAcls and DeleteAcls as commands send them, whatever connection they have.

`Ask` sends one request and gives its response. Refusals are raised as `Refusal`; each command has its own
words for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from moldau.broker.metadata.acls import Acl
from moldau.broker.security.acl_filter import AclFilter
from moldau.client.acls import AclRow, create_request, delete_request, deleted, describe_request, described
from moldau.common.protocol.declare import Message
from moldau.common.protocol.operations import Operation, PatternType, Permission, ResourceType

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
    answer = ask(describe_request(AclRow(*wanted)))
    _require(answer)
    return [_acl(each) for each in described(answer)]


def create(ask: Ask, acls: Sequence[Acl]) -> None:
    """Create ACLs. Refusal for the first that is refused; others may have been made."""
    for start in range(0, len(acls), ACLS_AT_ONCE):
        rows = [AclRow(*acl) for acl in acls[start : start + ACLS_AT_ONCE]]
        for result in ask(create_request(rows)).results:
            _require(result)


def delete(ask: Ask, filters: Sequence[AclFilter]) -> list[Acl]:
    """Delete what filters match; what was deleted. Refusal for the first that is refused."""
    gone: dict[Acl, None] = {}
    for result in ask(delete_request(AclRow(*each) for each in filters)).filter_results:
        _require(result)
        for row in result.matching_acls:
            _require(row)
            gone[_acl(deleted(row))] = None
    return list(gone)


def _acl(row: AclRow) -> Acl:
    return Acl(
        row.resource_type,
        row.resource_name or "",
        row.pattern_type,
        row.principal or "",
        row.host or "",
        row.operation,
        row.permission,
    )


def _require(row: Any) -> None:
    if row.error_code:
        raise Refusal(row.error_code, row.error_message)
