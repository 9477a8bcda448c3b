"""One budget for what clients make a broker keep between their requests: `moldau.client.state.max.bytes`.

Each kind of state has an account, the least valuable first:

    logins           frames of connections that have not logged in        the oldest is disconnected
    fetch sessions   partitions of incremental fetches (KIP-227)          the session is closed: a full Fetch
    share sessions   partitions that members of share groups read          the session is refused, or ended
    groups           members' metadata, subscriptions and assignments     a join is refused, and tried again

What does not fit takes room from less valuable kinds, and is refused when these have given all they can. A
kind may hold its share of the budget at most, so that none of them leaves nothing for the others.

Bytes are those that the process holds, objects and keys included, not those of the payload. State that is in
the log already (of a group that is loaded) is counted and never refused.

Not here: requests and responses under way (server/request_memory.py, server/response_memory.py).
"""

from collections.abc import Callable, Hashable

from moldau.common.core.clock import Clock


class ClientState:
    """The budget; `limit_bytes` of 0 or less is none."""

    def __init__(self, limit_bytes: int, clock: Clock) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._clock = clock
        self._full_until_ms = float("-inf")
        self.logins = Account(self, "logins", 0.25)
        self.fetch_sessions = Account(self, "fetch_sessions", 0.75)
        self.share_sessions = Account(self, "share_sessions", 0.5)
        self.groups = Account(self, "groups", 0.75)
        self.accounts = (self.logins, self.fetch_sessions, self.share_sessions, self.groups)

    def admits(self, account: "Account", size_bytes: int) -> bool:
        """Whether there is room for so much more of this kind; less valuable kinds are evicted for it."""
        if self.limit_bytes <= 0:
            return True
        if account.used_bytes + size_bytes > self.limit_bytes * account.share:
            self.note_full()
            return False
        missing_bytes = self._missing(size_bytes)
        for other in self.accounts[: self.accounts.index(account)]:
            if missing_bytes <= 0:
                break
            if other.evict is not None:
                other.evict(missing_bytes)
                missing_bytes = self._missing(size_bytes)
        if missing_bytes > 0:
            self.note_full()
        return missing_bytes <= 0

    def _missing(self, size_bytes: int) -> int:
        missing_bytes = self.used_bytes + size_bytes - self.limit_bytes
        if missing_bytes > 0:
            self.note_full()
        return missing_bytes

    def note_full(self) -> None:
        """Something was refused or evicted."""
        self._full_until_ms = self._clock.monotonic_ms()

    def full_within(self, duration_ms: float) -> bool:
        """Whether anything was refused or evicted in the last `duration_ms` milliseconds."""
        return self._clock.monotonic_ms() - self._full_until_ms < duration_ms


class Account:
    """What is held of one kind. `evict(size_bytes)` releases that much if it can."""

    def __init__(self, budget: ClientState, name: str, share: float) -> None:
        self.name = name
        self.share = share
        self.used_bytes = 0
        self.evicted_count = 0
        self.refused_count = 0
        self.evict: Callable[[int], None] | None = None
        self.limit_bytes = budget.limit_bytes
        self._budget = budget

    def change(self, size_bytes: int) -> None:
        """So much more, or less, is held."""
        self.used_bytes += size_bytes
        self._budget.used_bytes += size_bytes

    def admits(self, size_bytes: int) -> bool:
        """Whether so much more may be held."""
        return self._budget.admits(self, size_bytes)

    def evicted(self) -> None:
        """One holding was given up for want of room."""
        self.evicted_count += 1
        self._budget.note_full()

    def refused(self) -> None:
        """A request was refused for want of room."""
        self.refused_count += 1
        self._budget.note_full()


class Holdings:
    """A part of an account whose holdings have names, so that each can be counted anew, and all given up."""

    def __init__(self, account: Account | None = None) -> None:
        """Without an account nothing is counted or refused."""
        self._account = account
        self._held: dict[Hashable, int] = {}

    def set(self, name: Hashable, size_bytes: int) -> None:
        """This holding has so many bytes now; 0: it is gone."""
        if self._account is None:
            return
        before = self._held.pop(name, 0)
        if size_bytes:
            self._held[name] = size_bytes
        self._account.change(size_bytes - before)

    def get(self, name: Hashable) -> int:
        """How many bytes this holding has."""
        return self._held.get(name, 0)

    def admits(self, name: Hashable, size_bytes: int, share_max: float) -> bool:
        """Whether this holding may get so much more; it may have `share_max` of the budget at most."""
        account = self._account
        if account is None or size_bytes <= 0:
            return True
        own_bytes = self._held.get(name, 0) + size_bytes
        within = account.limit_bytes <= 0 or own_bytes <= account.limit_bytes * share_max
        if within and account.admits(size_bytes):
            return True
        account.refused()
        return False

    def clear(self) -> None:
        """All is given up."""
        if self._account is not None:
            self._account.change(-sum(self._held.values()))
        self._held.clear()
