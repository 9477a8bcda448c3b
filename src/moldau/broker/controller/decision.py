"""A decision: changes to append, and an answer for each item of the request.

A decision about many items is made in steps (a generator that yields after each), so that it does not block
the event loop; `decided` runs all steps at once.
"""

from collections.abc import Generator, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from moldau.broker.metadata.changes import Change
from moldau.common.core.slow_lane import all_steps
from moldau.common.protocol.errors import ErrorCode

R = TypeVar("R")


class Outcome(NamedTuple):
    """The outcome of one item. `message` is for the user, None where the error code suffices."""

    error_code: ErrorCode = ErrorCode.NONE
    message: str | None = None

    @property
    def failed(self) -> bool:
        """Whether nothing was done."""
        return self.error_code is not ErrorCode.NONE


DONE = Outcome()


class Refusal(Exception):
    """Raised inside a decision to leave it with an error; never leaves this package."""

    def __init__(self, error_code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message)
        self.outcome = Outcome(error_code, message)


class Decision(NamedTuple, Generic[R]):
    """Changes that must be appended together, and the answer that holds once they are.

    `earlier`: entries to append before, one after the other. Each must be sound by itself, and must not be
    decided again once it is there: after a conflict with another broker's append, the rest is decided anew.
    Thousands of partitions are so cut into entries that every broker reads in a few milliseconds.
    """

    changes: Sequence[Change]
    answer: R
    earlier: Sequence[Sequence[Change]] = ()


class MutationLimit(Protocol):
    """The quota on changes of metadata of whoever asks (KIP-599)."""

    def allows(self, topic: str, partition_count: int) -> bool:
        """Whether this change is within the quota; it is charged if so, once for each topic however often the
        decision is made."""


def check_mutation(limit: MutationLimit | None, topic: str, partition_count: int) -> None:
    """Refusal when the client has made too many changes of metadata."""
    if limit is not None and not limit.allows(topic, partition_count):
        raise Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")


Steps = Generator[None, None, Decision[R]]

RECORDS_MAX = 10_000
"""The most topics, partitions and settings that one request may make or change together, as in Kafka."""
PARTITIONS_AN_ENTRY = 1_000
"""After so many partitions, what may be appended in several entries begins the next."""
TOO_LARGE = Outcome(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")


def decided(steps: Steps[R]) -> Decision[R]:
    """The decision, all of its steps made at once."""
    return all_steps(steps)
