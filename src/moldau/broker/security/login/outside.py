"""What mechanisms need beyond settings and metadata: workers, the keys of token issuers, and the secret of
delegation tokens. Made by node.py, which alone knows the machine."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from moldau.broker.security.tokens.signing import TokenSigner
from moldau.common.credentials.jwt.key_sources import KeySources

T = TypeVar("T")


class Run(Protocol):
    """Calls a blocking function on a worker."""

    def __call__(self, blocking: Callable[[], T], /) -> Awaitable[T]: ...


class Outside:
    """The workers of logins, the key sources and the token secret."""

    __slots__ = ("keys", "run", "signer")

    def __init__(self, run: Run, keys: KeySources, signer: TokenSigner) -> None:
        self.run = run
        self.keys = keys
        self.signer = signer
