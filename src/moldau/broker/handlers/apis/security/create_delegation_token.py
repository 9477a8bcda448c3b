"""CreateDelegationToken, versions 1-3: create a token that authenticates as its owner (KIP-48).

    v2  flexible      v3  the owner may be another than the requester (KIP-373)
A token for somebody else takes the operation CREATE_TOKENS on that user. Not here: who may ask at all
(token_requests.py), lifetimes (controller/delegation_tokens.py).
"""

from moldau.broker.controller.decision import Outcome
from moldau.broker.controller.delegation_tokens import DISABLED, CreatedToken, NewToken
from moldau.broker.handlers.apis.security.token_requests import USER_TYPE, may_ask_for_tokens
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from moldau.common.protocol.operations import Operation, ResourceType

REQUESTER_SINCE = 3
RENEWERS_MAX = 1_000


@handles(CreateDelegationTokenRequest)
async def create_delegation_token(
    broker: Broker, context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    requester = owner = context.session.principal
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type or ''}:{request.owner_principal_name}"
    refused = _refusal(broker, context, request, owner)
    if refused is not None:
        return _answer_row(context, requester, owner, CreatedToken(refused))
    renewers = tuple(f"{each.principal_type}:{each.principal_name}" for each in request.renewers)
    asked = NewToken(requester, owner, renewers, request.max_lifetime_ms)
    created = await broker.controller.create_delegation_token(asked, broker.clock.now_ms())
    response = _answer_row(context, requester, owner, created)
    if created.token is not None:
        response.hmac = broker.controller.token_signer.hmac_of(created.token.token_id)
    return response


def _refusal(
    broker: Broker, context: RequestContext, request: CreateDelegationTokenRequest, owner: str
) -> Outcome | None:
    session, authorizer = context.session, broker.authorizer
    if not may_ask_for_tokens(session):
        return Outcome(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if (
        owner != session.principal
        and authorizer is not None
        and not authorizer.allows(session, Operation.CREATE_TOKENS, ResourceType.USER, owner)
    ):
        return Outcome(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    if any(each.principal_type != USER_TYPE for each in request.renewers):
        return Outcome(ErrorCode.INVALID_PRINCIPAL_TYPE)
    if not broker.controller.token_signer.enabled:
        return DISABLED
    if len(request.renewers) > RENEWERS_MAX:
        return Outcome(ErrorCode.INVALID_REQUEST)
    return None


def _answer_row(
    context: RequestContext, requester: str, owner: str, created: CreatedToken
) -> CreateDelegationTokenResponse:
    response = CreateDelegationTokenResponse(error_code=created.outcome.error_code)
    response.principal_type, _, response.principal_name = owner.partition(":")
    if context.api_version >= REQUESTER_SINCE:
        kind, _, name = requester.partition(":")
        response.token_requester_principal_type, response.token_requester_principal_name = kind, name
    token = created.token
    if token is not None:
        response.issue_timestamp_ms = token.issued_ms
        response.expiry_timestamp_ms = token.expires_ms
        response.max_timestamp_ms = token.max_ms
        response.token_id = token.token_id
    return response
