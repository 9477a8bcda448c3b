"""The HMAC of a delegation token, which is the secret that its holder has, and finding a token by it.

    HMAC = HMAC-SHA-512(delegation.token.secret.key, token id)          as in Kafka

It is computed, never stored. A request names a token by its HMAC: `find` looks up the SHA-256 of what it
sent, so that the time of a look-up tells nothing about any HMAC, and then compares in constant time.

Invariant: after `follow`, exactly the tokens of that image are found. Not here: who may do what with a token
(controller/delegation_tokens.py), and its use in a login (security/login/token_credentials.py).
"""

import hashlib
import hmac
from collections.abc import Generator, Mapping
from types import MappingProxyType

from moldau.broker.metadata.delegation_tokens import DelegationToken

_AT_ONCE = 64

Tokens = Mapping[str, DelegationToken]


class TokenSigner:
    """Signs the tokens of one cluster. All of its brokers have the same secret."""

    __slots__ = ("_by_digest", "_digests", "_followed", "_secret")

    def __init__(self, secret: str | None) -> None:
        """`secret`: delegation.token.secret.key; None: delegation tokens are not enabled."""
        self._secret = None if secret is None else secret.encode()
        self._followed: Tokens = MappingProxyType({})
        self._by_digest: dict[bytes, str] = {}
        self._digests: dict[str, bytes] = {}

    @property
    def enabled(self) -> bool:
        """Whether there is a secret."""
        return self._secret is not None

    def hmac_of(self, token_id: str) -> bytes:
        """The HMAC of a token: 64 bytes."""
        assert self._secret is not None, "delegation tokens are not enabled"
        return hmac.digest(self._secret, token_id.encode(), "sha512")

    def derived(self, purpose: str, size_bytes: int) -> bytes:
        """Bytes that only brokers with the secret can compute, the same on each; at most 64."""
        assert self._secret is not None, "delegation tokens are not enabled"
        return hmac.digest(self._secret, b"\0" + purpose.encode(), "sha512")[:size_bytes]

    def follow(self, tokens: Tokens) -> Generator[None, None, None]:
        """Learn the tokens of an image, a few at a step."""
        if tokens is self._followed:
            return
        digests = self._digests
        for position, token_id in enumerate([each for each in digests if each not in tokens]):
            self._by_digest.pop(digests.pop(token_id), None)
            if position % _AT_ONCE == _AT_ONCE - 1:
                yield
        for position, token_id in enumerate([each for each in tokens if each not in digests]):
            digests[token_id] = digest = hashlib.sha256(self.hmac_of(token_id)).digest()
            self._by_digest[digest] = token_id
            if position % _AT_ONCE == _AT_ONCE - 1:
                yield
        self._followed = tokens

    def find(self, tokens: Tokens, sent: bytes) -> Generator[None, None, DelegationToken | None]:
        """The token with this HMAC; None if there is none."""
        yield from self.follow(tokens)
        token_id = self._by_digest.get(hashlib.sha256(sent).digest())
        if token_id is None or not hmac.compare_digest(self.hmac_of(token_id), sent):
            return None
        return tokens.get(token_id)

    def __repr__(self) -> str:
        return f"TokenSigner({'enabled' if self.enabled else 'not enabled'})"
