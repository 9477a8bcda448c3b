"""What can go wrong between a client and its cluster.

Each error says, in a sentence for the person who started the program, what was wanted and what stands in the
way. `Retriable` never leaves the client: it ends one attempt of several.
"""

from __future__ import annotations

from moldau.protocol.errors import ErrorCode

_CODES = {int(code): code for code in ErrorCode}


class ClientError(Exception):
    """Anything that this client gives up with."""


class OptionError(ClientError, ValueError):
    """An option that we do not know how to honour, or a value that it cannot have."""


class ClusterTimeout(ClientError, TimeoutError):
    """The cluster did not answer, or not with what was needed, for as long as we were told to wait."""


class UnknownTopic(ClientError):
    """There is no such topic or partition, or no longer."""


class RequestRefused(ClientError):
    """The cluster answered with an error that trying again does not cure; `error_code` is the protocol's."""

    def __init__(self, message: str, error_code: int) -> None:
        super().__init__(message)
        self.error_code = error_code

    def __reduce__(self) -> tuple[type[RequestRefused], tuple[str, int]]:
        """Errors travel from executors to drivers."""
        return type(self), (str(self), self.error_code)


class CorruptRecords(ClientError, ValueError):
    """A batch from the broker is damaged: its checksum, its header or a record in it."""


class OffsetOutOfRange(ClientError):
    """Records that were asked for are not in the log: deleted (before `earliest`), or never written (from
    `latest` on).
    """

    def __init__(self, topic: str, partition: int, offset: int, earliest: int, latest: int) -> None:
        super().__init__(
            f"offset {offset} of {topic}-{partition} is not there: the partition holds offsets {earliest} "
            f"to {latest - 1}"
            if latest > earliest
            else f"offset {offset} of {topic}-{partition} is not there: the partition is empty, "
            f"and its next offset is {latest}"
        )
        self.topic, self.partition, self.offset = topic, partition, offset
        self.earliest, self.latest = earliest, latest

    def __reduce__(self) -> tuple[type[OffsetOutOfRange], tuple[str, int, int, int, int]]:
        """Errors travel from executors to drivers."""
        return type(self), (self.topic, self.partition, self.offset, self.earliest, self.latest)


class Retriable(Exception):
    """This attempt failed and the next may not: `Cluster.persist` waits and tries again."""


def error_words(error_code: int) -> str:
    """Kafka's sentence and name for an error code."""
    code = _CODES.get(error_code)
    return f"error {error_code}" if code is None else f"{code.message.rstrip('.')} ({code.name})"


def check(error_code: int, wanted: str) -> None:
    """Nothing for code 0; Retriable where the table says that trying again may help; else RequestRefused."""
    if not error_code:
        return
    code = _CODES.get(error_code)
    if code is not None and code.retriable:
        raise Retriable(error_words(error_code))
    raise RequestRefused(f"cannot {wanted}: {error_words(error_code)}", error_code)
