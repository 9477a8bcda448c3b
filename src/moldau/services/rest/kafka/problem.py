"""An error that Kafka answered, or that a client of it found, with Kafka's number.

The versions of the REST proxy turn it into their own errors.
"""

from __future__ import annotations

from moldau.common.protocol.errors import ErrorCode

_CODES = {int(code): code for code in ErrorCode}


class KafkaProblem(Exception):
    """`error_code` is the protocol's, such as 3 for an unknown topic."""

    def __init__(self, error_code: int, message: str | None = None) -> None:
        code = _CODES.get(error_code)
        super().__init__(message or (code.message if code is not None else f"Kafka error {error_code}."))
        self.error_code = error_code
        self.retriable = code is not None and code.retriable

    @property
    def name(self) -> str:
        """Kafka's name of the error, such as UNKNOWN_TOPIC_OR_PARTITION."""
        code = _CODES.get(self.error_code)
        return f"ERROR_{self.error_code}" if code is None else code.name


def check(error_code: int, message: str | None = None) -> None:
    """Return for 0, raise KafkaProblem else."""
    if error_code:
        raise KafkaProblem(error_code, message)
