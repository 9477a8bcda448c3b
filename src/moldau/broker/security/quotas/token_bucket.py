"""A bucket of tokens for changes of metadata, which come in bursts (KIP-599).

A bucket fills by `limit` tokens a second, and holds what comes in the time of all samples
(`controller.quota.window.num` x `controller.quota.window.size.seconds`). A change takes a token for each
partition; the last one may take more than there are, and then nobody gets any until the bucket is at zero:

    tokens   10 ── create 8 ──> 2 ── create 6 ──> -4 ── refused for 4 / limit seconds ──> 0

So a burst is paid for by the time that it is worth, not by that of a whole window as with a rate.
"""

from moldau.broker.security.quotas.rate import Windows, round_half_up


class TokenBucket:
    """The tokens of one client. It begins full."""

    __slots__ = ("_tokens", "_updated_ms", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._tokens: float | None = None  # None: full, whatever the limit is
        self._updated_ms = 0.0

    def tokens(self, limit: float, now_ms: float) -> float:
        """What is left; below zero: so many were taken in advance."""
        burst = limit * self._windows.total_ms / 1_000
        if self._tokens is None:
            tokens = burst
        else:
            tokens = min(burst, self._tokens + limit * max(0.0, now_ms - self._updated_ms) / 1_000)
        self._tokens, self._updated_ms = tokens, now_ms
        return tokens

    def spend(self, count: float, limit: float, now_ms: float) -> None:
        """Spend so many, also if there are fewer."""
        self._tokens = self.tokens(limit, now_ms) - count

    def delay_ms(self, limit: float, now_ms: float) -> int:
        """How long until the bucket is at zero; 0: it is not below."""
        tokens = self.tokens(limit, now_ms)
        return round_half_up(-tokens / limit * 1_000) if tokens < 0 else 0
