"""A broker's error: Kafka's error code, and the broker's own message if it sent one.

Each user of it has its own words: the tools those of Kafka's tools, the REST proxy those of Confluent's.
"""

from __future__ import annotations

from moldau.client.errors import ClientError, error_words
from moldau.common.protocol.errors import ErrorCode

_CODES = {int(code): code for code in ErrorCode}


class KafkaProblem(ClientError):
    """`error_code` is the protocol's, such as 3 for an unknown topic; `reason` the broker's own words, if it
    sent any.
    """

    def __init__(self, error_code: int, reason: str | None = None) -> None:
        code = _CODES.get(error_code)
        super().__init__(reason or (code.message if code is not None else f"Kafka error {error_code}."))
        self.error_code = error_code
        self.reason = reason
        self.retriable = code is not None and code.retriable

    @property
    def words(self) -> str:
        """The broker's own words, else Kafka's message and name of the error."""
        return self.reason or error_words(self.error_code)

    @property
    def name(self) -> str:
        """Kafka's name of the error, such as UNKNOWN_TOPIC_OR_PARTITION."""
        code = _CODES.get(self.error_code)
        return f"ERROR_{self.error_code}" if code is None else code.name


def check(error_code: int, reason: str | None = None) -> None:
    """Return for 0, raise KafkaProblem else."""
    if error_code:
        raise KafkaProblem(error_code, reason)
