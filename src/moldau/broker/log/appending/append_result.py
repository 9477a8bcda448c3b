"""The result of an append: the batch's offsets, an error code with its message, or an inspection of the
records that must be run first. None of them is an exception.

HOT: one `Appended` is made for every batch, so it is a tuple with names; what is the same in every good
answer stands on the class.
"""

from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.log.appending.batch_error import RecordError

if TYPE_CHECKING:
    from moldau.broker.log.appending.inspection import Inspection


class AppendResult:
    """What `Appended`, `Refused` and `Deferred` have in common."""

    __slots__ = ()

    error_code: int
    base_offset: int
    """The offset of the batch's first record, or -1."""
    last_offset: int
    log_append_time_ms: int
    """The broker's time under LogAppendTime, else -1."""
    log_start_offset: int
    duplicate: bool
    """The batch is in the log already; the offsets are those of then."""
    error_message: str | None
    record_errors: tuple[RecordError, ...]


class _Offsets(NamedTuple):
    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int


class Appended(_Offsets, AppendResult):
    """The batch is in the log (staged or written)."""

    __slots__ = ()

    error_code = 0
    duplicate = False
    error_message = None
    record_errors = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_offset}-{self.last_offset})"


class Repeated(Appended):
    """The batch was in the log before; nothing was written."""

    __slots__ = ()

    duplicate = True


class Refused(AppendResult):
    """The batch is not in the log; the error code says why."""

    __slots__ = ("error_code", "error_message", "log_start_offset", "record_errors")

    base_offset = -1
    last_offset = -1
    log_append_time_ms = -1
    duplicate = False

    def __init__(
        self,
        error_code: int,
        error_message: str,
        log_start_offset: int = -1,
        record_errors: tuple[RecordError, ...] = (),
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.log_start_offset = log_start_offset
        self.record_errors = record_errors

    def __repr__(self) -> str:
        return f"Refused({self.error_code}: {self.error_message})"


class Deferred(AppendResult):
    """Not decided yet: the records must be validated first, which takes too long for the event loop. Run the
    inspection, then call `append_inspected`.
    """

    __slots__ = ("inspection", "log_start_offset")

    error_code = -1  # UNKNOWN_SERVER_ERROR, if the caller ignores it
    base_offset = -1
    last_offset = -1
    log_append_time_ms = -1
    duplicate = False
    error_message = None
    record_errors = ()

    def __init__(self, inspection: "Inspection", log_start_offset: int) -> None:
        self.inspection = inspection
        self.log_start_offset = log_start_offset
