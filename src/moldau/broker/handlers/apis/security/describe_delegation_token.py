"""DescribeDelegationToken, versions 1-3: the delegation tokens of owners, or (null) of everyone (KIP-48).

    v2  flexible      v3  who requested each token (KIP-373)
A client sees the tokens that it owns, asked for, or may renew; others with DESCRIBE on the token, or
DESCRIBE_TOKENS on its owner. What it may not see is left out. A described token comes with its HMAC.
"""

from collections.abc import Generator

from moldau.broker.controller.delegation_tokens import DISABLED
from moldau.broker.handlers.apis.security.token_requests import may_ask_for_tokens
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.metadata.delegation_tokens import DelegationToken
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from moldau.common.protocol.operations import Operation, ResourceType

REQUESTER_SINCE = 3
_AT_ONCE = 32


@handles(DescribeDelegationTokenRequest)
def describe_delegation_token(
    broker: Broker, context: RequestContext, request: DescribeDelegationTokenRequest
) -> Generator[None, None, DescribeDelegationTokenResponse]:
    if not may_ask_for_tokens(context.session):
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if not broker.controller.token_signer.enabled:
        return DescribeDelegationTokenResponse(error_code=DISABLED.error_code)
    owners = None
    if request.owners is not None:
        owners = {f"{each.principal_type}:{each.principal_name}" for each in request.owners}
    now_ms = broker.clock.now_ms()
    found = []
    for position, token in enumerate(list(broker.metadata.image.delegation_tokens.values())):
        if token.is_valid_at(now_ms) and _is_asked_for(token, owners) and _may_see(broker, context, token):
            found.append(_answer_row(broker, context, token))
        if position % _AT_ONCE == _AT_ONCE - 1:
            yield
    return DescribeDelegationTokenResponse(tokens=found)


def _is_asked_for(token: DelegationToken, owners: set[str] | None) -> bool:
    if owners is None:
        return True
    return (
        token.owner in owners or token.requester in owners or any(each in owners for each in token.renewers)
    )


def _may_see(broker: Broker, context: RequestContext, token: DelegationToken) -> bool:
    session, authorizer = context.session, broker.authorizer
    if authorizer is None or token.concerns(session.principal):
        return True
    return authorizer.allows(
        session, Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id, quiet=True
    ) or authorizer.allows(session, Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner, quiet=True)


def _answer_row(broker: Broker, context: RequestContext, token: DelegationToken) -> DescribedDelegationToken:
    described = DescribedDelegationToken(
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=broker.controller.token_signer.hmac_of(token.token_id),
        renewers=[_renewer(each) for each in token.renewers],
    )
    described.principal_type, _, described.principal_name = token.owner.partition(":")
    if context.api_version >= REQUESTER_SINCE:
        kind, _, name = token.requester.partition(":")
        described.token_requester_principal_type, described.token_requester_principal_name = kind, name
    return described


def _renewer(principal: str) -> DescribedDelegationTokenRenewer:
    kind, _, name = principal.partition(":")
    return DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
