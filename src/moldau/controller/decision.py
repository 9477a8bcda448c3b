"""What a decision is made of: changes to append, and an answer for each thing that was asked."""

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from moldau.metadata.changes import Change
from moldau.protocol.errors import ErrorCode

R = TypeVar("R")


class Outcome(NamedTuple):
    """How one thing went. `message` is for the user, and None where the error code says it all."""

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
    """Changes that must be appended together, and the answer that holds once they are."""

    changes: Sequence[Change]
    answer: R
