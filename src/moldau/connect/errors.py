"""What a connector raises.

    Retriable      may succeed later: the operation is repeated with back-off for `errors.retry.timeout`
    BadRecord      this record cannot be handled: `errors.tolerance` decides (fail, leave out, dead letter)
    ConnectError   the task fails; the worker starts it again with back-off

    BadRecords     the same of several records of a batch

Any other exception fails the task like ConnectError, with its traceback in the worker's log.
"""

from __future__ import annotations

from collections.abc import Sequence


class ConnectError(Exception):
    """The task cannot go on. The message says what happened, to what, and what to do."""


class Retriable(ConnectError):
    """The other system is away or busy: what was asked may be asked again."""


class BadRecord(ConnectError):
    """One record of a batch cannot be written, read or converted."""

    def __init__(self, message: str, index: int | None = None) -> None:
        """`index`: which row of the batch, None if that is not known (then the batch is tried row by row)."""
        super().__init__(message)
        self.index = index


class BadRecords(BadRecord):
    """Several records of a batch cannot be; `rows` has each with its reason, by row."""

    def __init__(self, rows: Sequence[tuple[int, str]]) -> None:
        self.rows = rows
        super().__init__(rows[0][1], rows[0][0])
