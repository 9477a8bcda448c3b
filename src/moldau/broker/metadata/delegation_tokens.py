"""A delegation token (KIP-48) as the metadata holds it.

It holds no secret: what a client logs in with is an HMAC of the token's id, which every broker computes with
`delegation.token.secret.key` (security/tokens/signing.py).
"""

from collections.abc import Mapping
from typing import NamedTuple


class DelegationToken(NamedTuple):
    """Who logs in with it (`owner`), who asked for it, and who may prolong or end it. Principals are text,
    `User:alice`; times are milliseconds since 1970."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int
    """It cannot be prolonged beyond this."""

    def is_valid_at(self, now_ms: int) -> bool:
        """Whether it has not expired yet."""
        return now_ms <= self.expires_ms and now_ms <= self.max_ms

    def may_prolong(self, principal: str) -> bool:
        """Whether this principal may prolong or end it."""
        return principal == self.owner or principal in self.renewers

    def concerns(self, principal: str) -> bool:
        """Whether this principal owns it, asked for it, or may renew it: such a one may see it."""
        return principal == self.requester or self.may_prolong(principal)


DelegationTokens = Mapping[str, DelegationToken]
"""All delegation tokens, by id."""
