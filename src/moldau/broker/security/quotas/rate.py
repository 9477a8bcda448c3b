"""The rate of one client, and how long it must wait: Kafka's arithmetic (KIP-13, KIP-124, KIP-219).

What a client uses is added up in samples of some length (`quota.window.size.seconds`), of which a number is
kept (`quota.window.num`). The rate is their sum divided by the time that they cover:

    | 1 s | 1 s | ... | 1 s | now, not over yet |     sum / (now - begin of the oldest sample)

A client that came just now is treated as if it had been there and used nothing: fewer samples than are kept
count as whole ones. So a burst is allowed once, and is paid for afterwards. The delay is the time after which
the rate would be at the limit, if nothing were used meanwhile:

    delay = (rate - limit) / limit x time covered

A sample is dropped when its last use is as old as all samples together. Times are in milliseconds, of any
clock that does not go back.
"""

from typing import NamedTuple


class Windows(NamedTuple):
    """How many samples are kept, and how long each is."""

    kept: int = 11
    length_ms: int = 1_000

    @property
    def total_ms(self) -> int:
        """Nothing older than this has an effect."""
        return self.kept * self.length_ms


class Rate:
    """The rate of one client, in units per second."""

    __slots__ = ("_current", "_samples", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._samples: list[list[float]] = []  # begin, last use, sum
        self._current = 0

    def record(self, value: float, now_ms: float) -> None:
        """So much was used."""
        samples = self._samples
        if not samples:
            samples.append([now_ms, now_ms, value])
            return
        sample = samples[self._current]
        if now_ms - sample[0] >= self._windows.length_ms:
            # One more than counts is kept: the oldest one may reach into the time that is looked at.
            self._current = (self._current + 1) % (self._windows.kept + 1)
            if self._current == len(samples):
                samples.append([now_ms, now_ms, value])
                return
            sample = samples[self._current]
            sample[0], sample[2] = now_ms, 0.0
        sample[1] = now_ms
        sample[2] += value

    def per_second(self, now_ms: float, added: float = 0.0) -> float:
        """The rate; `added`: as it would be with so much more."""
        covered_ms = self._covered_ms(now_ms)
        return (sum(sample[2] for sample in self._samples) + added) * 1_000 / covered_ms

    def delay_ms(self, limit: float, now_ms: float, added: float = 0.0) -> int:
        """How long the client must wait until its rate is at `limit` again; 0: it is not above it."""
        rate = self.per_second(now_ms, added)
        if rate <= limit:
            return 0
        return round_half_up((rate - limit) / limit * self._covered_ms(now_ms))

    def is_empty(self, now_ms: float) -> bool:
        """Whether nothing counts any more."""
        oldest_ms = now_ms - self._windows.total_ms
        return all(sample[1] <= oldest_ms or not sample[2] for sample in self._samples)

    def _covered_ms(self, now_ms: float) -> float:
        windows = self._windows
        begin_ms = now_ms
        for sample in self._samples:
            if now_ms - sample[1] >= windows.total_ms:
                sample[0] = sample[1] = now_ms
                sample[2] = 0.0
            elif sample[0] < begin_ms:
                begin_ms = sample[0]
        covered_ms = now_ms - begin_ms
        missing = windows.kept - 1 - int(covered_ms // windows.length_ms)
        if missing > 0:
            covered_ms += missing * windows.length_ms
        return max(covered_ms, 1)


def round_half_up(value: float) -> int:
    """As Java rounds; Python's own `round` takes the even neighbour."""
    return int(value + 0.5)
