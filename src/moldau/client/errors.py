"""Errors of the client.

Each message, made for the user, has what was wanted and what prevents it. `Retriable` stays inside the
client: it ends one attempt of several.
"""

from __future__ import annotations

from moldau.common.protocol.errors import ErrorCode

_CODES = {int(code): code for code in ErrorCode}


class ClientError(Exception):
    """Any final error of this client."""


class OptionError(ClientError, ValueError):
    """An unsupported option, or an invalid value."""


class ClusterTimeout(ClientError, TimeoutError):
    """The cluster did not respond, or not successfully, within the time limit. `error_code` is what it
    answered to the last attempt; 0: nothing.
    """

    error_code = 0


class UnknownTopic(ClientError):
    """The topic or partition does not exist, or no longer. `topic` is named if the whole topic is missing."""

    def __init__(self, message: str, topic: str = "") -> None:
        super().__init__(message)
        self.topic = topic


class RequestRefused(ClientError):
    """The cluster responded with an error that a retry does not cure; `error_code` is the protocol's."""

    def __init__(self, message: str, error_code: int) -> None:
        super().__init__(message)
        self.error_code = error_code

    def __reduce__(self) -> tuple[type[RequestRefused], tuple[str, int]]:
        """Pickles the error on its way from executor to driver."""
        return type(self), (str(self), self.error_code)


class CorruptRecords(ClientError, ValueError):
    """A batch is damaged: its checksum, its header or a record in it."""


class OffsetOutOfRange(ClientError):
    """The requested records are not in the log: deleted (before `earliest`), or never written (from
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
        """Pickles the error on its way from executor to driver."""
        return type(self), (self.topic, self.partition, self.offset, self.earliest, self.latest)


class Retriable(Exception):
    """This attempt failed, the next may succeed: `Cluster.persist` waits and repeats it."""

    def __init__(self, message: str, error_code: int = 0) -> None:
        super().__init__(message)
        self.error_code = error_code


def error_words(error_code: int) -> str:
    """Kafka's message and name for an error code."""
    code = _CODES.get(error_code)
    return f"error {error_code}" if code is None else f"{code.message.rstrip('.')} ({code.name})"


def check(error_code: int, wanted: str) -> None:
    """Return for code 0; raise Retriable for a retriable error, else RequestRefused."""
    if not error_code:
        return
    code = _CODES.get(error_code)
    if code is not None and code.retriable:
        raise Retriable(error_words(error_code), error_code)
    raise RequestRefused(f"cannot {wanted}: {error_words(error_code)}", error_code)
