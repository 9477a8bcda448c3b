"""What is wrong with a batch: an error code, its message, and the records that it is about.

Who checks a batch returns one; an append makes it a `Refused` with the log's offsets (append_result.py).
"""

from typing import NamedTuple


class RecordError(NamedTuple):
    """One record for which the batch is refused: its index in the batch, and what is wrong with it."""

    batch_index: int
    message: str


class BatchError(NamedTuple):
    """Why a batch is not appended."""

    error_code: int
    message: str
    record_errors: tuple[RecordError, ...] = ()
