"""Decisions about delegation tokens (KIP-48): create, renew, expire, and the removal of expired ones.

Each takes the image and the time, and gives changes. Not here: whether the connection may ask at all
(security/token_requests.py); the HMAC (security/tokens/signing.py).
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

from moldau.broker.controller.decision import DONE, Decision, Outcome, Steps
from moldau.broker.metadata.changes import Change, DelegationTokenChanged, DelegationTokensRemoved
from moldau.broker.metadata.delegation_tokens import DelegationToken
from moldau.broker.metadata.image import Image
from moldau.broker.security.tokens.signing import TokenSigner
from moldau.common.core.ids import random_uuid, uuid_to_text
from moldau.common.protocol.errors import ErrorCode
from moldau.common.settings.broker import BrokerSettings

NO_TIMESTAMP = -1
_REMOVED_AT_ONCE = 1_000
_LOOKED_AT_ONCE = 256


class NewToken(NamedTuple):
    """Who asks for a token, for whom; `max_lifetime_ms` of 0 or less: the broker's own limit."""

    requester: str
    owner: str
    renewers: tuple[str, ...]
    max_lifetime_ms: int = NO_TIMESTAMP


class CreatedToken(NamedTuple):
    """A new token, or (None) why there is none."""

    outcome: Outcome
    token: DelegationToken | None = None


class Prolonged(NamedTuple):
    """When a token expires now; 0 if nothing was done (as in Kafka: decoders of times refuse -1)."""

    outcome: Outcome
    expires_ms: int = 0


def create_token(
    image: Image, asked: NewToken, settings: BrokerSettings, now_ms: int, source: random.Random
) -> Decision[CreatedToken]:
    """Decide on a new token."""
    lifetime_ms = settings.delegation_token_max_lifetime_ms
    if asked.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, asked.max_lifetime_ms)
    token_id = uuid_to_text(random_uuid(source))
    while token_id in image.delegation_tokens:
        token_id = uuid_to_text(random_uuid(source))
    token = DelegationToken(
        token_id,
        asked.owner,
        asked.requester,
        tuple(dict.fromkeys(asked.renewers)),
        issued_ms=now_ms,
        expires_ms=now_ms + min(lifetime_ms, settings.delegation_token_expiry_time_ms),
        max_ms=now_ms + lifetime_ms,
    )
    return Decision([DelegationTokenChanged(token)], CreatedToken(DONE, token))


def renew_token(
    image: Image,
    signer: TokenSigner,
    hmac: bytes,
    principal: str,
    period_ms: int,
    settings: BrokerSettings,
    now_ms: int,
) -> Steps[Prolonged]:
    """Decide on a later end; `period_ms` of 0 or less: the broker's delegation.token.expiry.time.ms."""
    token = yield from signer.find(image.delegation_tokens, hmac)
    refused = _refusal(token, principal, now_ms)
    if token is None or refused is not None:
        return Decision([], Prolonged(refused or NOT_FOUND))
    longest_ms = settings.delegation_token_expiry_time_ms
    expires_ms = now_ms + (min(longest_ms, period_ms) if period_ms > 0 else longest_ms)
    return _ending_at(token, expires_ms)


def expire_token(
    image: Image, signer: TokenSigner, hmac: bytes, principal: str, period_ms: int, now_ms: int
) -> Steps[Prolonged]:
    """Decide on the end of a token, in `period_ms`; a negative one: now, and the answer is that number, as in
    Kafka."""
    token = yield from signer.find(image.delegation_tokens, hmac)
    refused = _refusal(token, principal, now_ms)
    if token is None or refused is not None:
        return Decision([], Prolonged(refused or NOT_FOUND))
    if period_ms < 0:
        return Decision([DelegationTokensRemoved((token.token_id,))], Prolonged(DONE, period_ms))
    return _ending_at(token, now_ms + period_ms)


def remove_expired_tokens(image: Image, now_ms: int) -> Steps[list[DelegationToken]]:
    """Decide on the removal of tokens that have expired; the answer is those tokens."""
    expired = []
    for position, token in enumerate(image.delegation_tokens.values()):
        if not token.is_valid_at(now_ms):
            expired.append(token)
        if position % _LOOKED_AT_ONCE == _LOOKED_AT_ONCE - 1:
            yield
        if len(expired) == _REMOVED_AT_ONCE:  # the rest at the next look
            break
    changes: Sequence[Change] = (
        [DelegationTokensRemoved(tuple(each.token_id for each in expired))] if expired else []
    )
    return Decision(changes, expired)


def _ending_at(token: DelegationToken, expires_ms: int) -> Decision[Prolonged]:
    changed = token._replace(expires_ms=min(token.max_ms, expires_ms))
    changes: Sequence[Change] = [] if changed == token else [DelegationTokenChanged(changed)]
    return Decision(changes, Prolonged(DONE, changed.expires_ms))


def _refusal(token: DelegationToken | None, principal: str, now_ms: int) -> Outcome | None:
    """Kafka's checks, in its order."""
    if token is None:
        return NOT_FOUND
    if not token.is_valid_at(now_ms):
        return Outcome(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    if not token.may_prolong(principal):
        return Outcome(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    return None


NOT_FOUND = Outcome(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
DISABLED = Outcome(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
