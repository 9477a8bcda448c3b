"""Errors shown to the user: one sentence that ends with what to do.

`CommandError` is raised by commands; `explain_kafka_failure` translates what confluent-kafka raises. The
sentence includes Kafka's error name, since that is what people search for.
"""

from __future__ import annotations

from typing import Any

FAILED = 1
MISUSED = 2


class CommandError(Exception):
    """The command failed. The text is the whole message; `exit_code` is 1 (failed) or 2 (wrong usage)."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class UsageError(CommandError):
    """The command line is wrong."""

    def __init__(self, message: str) -> None:
        super().__init__(message, MISUSED)


_NO_RIGHT = "log in as somebody who may; `moldau acls explain` tells an administrator which rule decides"
ADVICE: dict[str, str] = {
    "UNKNOWN_TOPIC_OR_PART": "`moldau topics list` names what exists, `moldau topics create` makes one",
    "TOPIC_ALREADY_EXISTS": "add --if-not-exists to accept that, or change it with `moldau topics alter`",
    "INVALID_REPLICATION_FACTOR": "it can be at most the number of brokers: see `moldau status`",
    "NON_EMPTY_GROUP": "stop its members first: `moldau groups members GROUP` names them",
    "GROUP_ID_NOT_FOUND": "list the groups with `moldau groups list`",
    "UNKNOWN_MEMBER_ID": "stop the group's members first: `moldau groups members GROUP` names them",
    "_TIMED_OUT": "check the broker with `moldau status`, or raise --timeout",
    "_ALL_BROKERS_DOWN": "check the broker with `moldau status`",
    "_TRANSPORT": "`moldau doctor` finds out why: the listener may want TLS or a login (--command-config)",
    "TOPIC_AUTHORIZATION_FAILED": _NO_RIGHT,
    "GROUP_AUTHORIZATION_FAILED": _NO_RIGHT,
    "CLUSTER_AUTHORIZATION_FAILED": _NO_RIGHT,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": _NO_RIGHT,
    "MSG_SIZE_TOO_LARGE": "raise the topic's max.message.bytes (and the client's message.max.bytes)",
}
"""What to do about an error, by librdkafka's name for it."""


def explain_kafka_failure(failure: BaseException) -> str | None:
    """Return the message for an exception of confluent-kafka; None for any other."""
    from confluent_kafka import KafkaError, KafkaException

    if isinstance(failure, KafkaException) and failure.args and isinstance(failure.args[0], KafkaError):
        return explain_kafka_error(failure.args[0])
    if isinstance(failure, KafkaException):
        return str(failure)
    return None


def is_of_unused_group(error: Any) -> bool:
    """Whether an error is only about a consumer's group, to be passed over where no group is used: librdkafka
    looks for its coordinator all the same, and a user may be refused that who may read the topic."""
    return bool(error.name() == "GROUP_AUTHORIZATION_FAILED")


def explain_kafka_error(error: object) -> str:
    """Return the message for one KafkaError: the broker's (or librdkafka's) text, the error's name, and
    what to do.
    """
    name = error.name()  # type: ignore[attr-defined]
    text = (error.str() or "").strip().rstrip(".")  # type: ignore[attr-defined]
    # librdkafka says where an error arose; the name in brackets tells that already.
    text = text.removeprefix("Broker: ").removeprefix("Local: ")
    sentence = f"{text} ({name})" if text else str(name)
    advice = ADVICE.get(name)
    return f"{sentence}: {advice}" if advice else sentence
