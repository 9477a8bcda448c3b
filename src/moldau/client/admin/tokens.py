"""Delegation tokens (KIP-48): created, described, renewed, ended.

A token's HMAC is its secret: whoever has it can log in as the owner. It is not part of a `Token`'s repr.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from moldau.client.admin.problem import check
from moldau.client.admin.routing import ask_any
from moldau.common.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from moldau.common.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from moldau.common.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from moldau.common.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster
    from moldau.common.protocol.declare import Message


class Token(NamedTuple):
    """A delegation token. Principals are text (User:alice), times milliseconds since 1970."""

    token_id: str
    hmac: bytes
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int

    @property
    def hmac_text(self) -> str:
        """The HMAC as it is printed: in base64. As a password of SCRAM it logs in."""
        return base64.b64encode(self.hmac).decode()

    def __repr__(self) -> str:
        return f"Token({self.token_id}, {self.owner}, [hidden])"


def hmac_bytes(text: str) -> bytes:
    """The HMAC behind its text. ValueError."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def create_token(
    cluster: Cluster, renewers: Sequence[str], max_lifetime_ms: int, owner: str | None = None
) -> Token:
    """Create a token for `owner`, or (None) for who is logged in."""
    kind, name = _parts(owner) if owner else (None, None)
    request = CreateDelegationTokenRequest(
        owner_principal_type=kind,
        owner_principal_name=name,
        renewers=[_renewer(each) for each in renewers],
        max_lifetime_ms=max_lifetime_ms,
    )
    answer = _ask(cluster, request)
    requester = f"{answer.token_requester_principal_type}:{answer.token_requester_principal_name}"
    return Token(
        answer.token_id,
        bytes(answer.hmac),
        f"{answer.principal_type}:{answer.principal_name}",
        requester,
        tuple(renewers),
        answer.issue_timestamp_ms,
        answer.expiry_timestamp_ms,
        answer.max_timestamp_ms,
    )


def describe_tokens(cluster: Cluster, owners: Sequence[str] | None) -> list[Token]:
    """The tokens that these owned, requested or may renew; None: of everyone, as far as they may be seen."""
    rows = None
    if owners is not None:
        rows = [_owner(each) for each in owners]
    answer = _ask(cluster, DescribeDelegationTokenRequest(owners=rows))
    return [
        Token(
            each.token_id,
            bytes(each.hmac),
            f"{each.principal_type}:{each.principal_name}",
            f"{each.token_requester_principal_type}:{each.token_requester_principal_name}",
            tuple(f"{row.principal_type}:{row.principal_name}" for row in each.renewers),
            each.issue_timestamp,
            each.expiry_timestamp,
            each.max_timestamp,
        )
        for each in answer.tokens
    ]


def renew_token(cluster: Cluster, hmac: bytes, period_ms: int) -> int:
    """Let a token expire later; returns when."""
    answer = _ask(cluster, RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms))
    moment: int = answer.expiry_timestamp_ms
    return moment


def expire_token(cluster: Cluster, hmac: bytes, period_ms: int) -> int:
    """Let a token expire in `period_ms` (a negative one: at once); returns when."""
    answer = _ask(cluster, ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms))
    moment: int = answer.expiry_timestamp_ms
    return moment


def _ask(cluster: Cluster, request: Message) -> Any:
    answer = ask_any(cluster, request)
    check(answer.error_code)
    return answer


def _renewer(principal: str) -> CreatableRenewers:
    kind, name = _parts(principal)
    return CreatableRenewers(principal_type=kind, principal_name=name)


def _owner(principal: str) -> DescribeDelegationTokenOwner:
    kind, name = _parts(principal)
    return DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)


def _parts(principal: str) -> tuple[str, str]:
    kind, _, name = principal.partition(":")
    return kind, name
