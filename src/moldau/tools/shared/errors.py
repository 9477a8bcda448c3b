"""Errors shown to the user: one sentence that ends with what to do.

`CommandError` is raised by commands; `explain_kafka_failure` translates what the clients raise. The sentence
includes Kafka's error name, since that is what people search for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moldau.client.errors import ClientError

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
    "DELEGATION_TOKEN_AUTH_DISABLED": "set delegation.token.secret.key on all brokers, the same on each",
    "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED": "log in by SASL or a TLS certificate, for example with "
    "-X security.protocol=SASL_SSL -X sasl.mechanism=SCRAM-SHA-512 ...",
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED": "a token for somebody else needs the operation CREATE_TOKENS on "
    "that user: see `kafka-acls --user-principal`",
    "DELEGATION_TOKEN_OWNER_MISMATCH": "only the token's owner and its renewers may do this",
    "DELEGATION_TOKEN_NOT_FOUND": "see `moldau tokens list`",
    "DELEGATION_TOKEN_EXPIRED": "create another one with `moldau tokens create`",
    "MSG_SIZE_TOO_LARGE": "raise the topic's max.message.bytes (and the client's message.max.bytes)",
}
"""What to do about an error, by librdkafka's name for it."""
_LIBRDKAFKA = {
    "UNKNOWN_TOPIC_OR_PARTITION": "UNKNOWN_TOPIC_OR_PART",
    "MESSAGE_TOO_LARGE": "MSG_SIZE_TOO_LARGE",
}
"""Its names that differ from Kafka's."""


def explain_kafka_failure(failure: BaseException) -> str | None:
    """Return the message for an exception of confluent-kafka or our own client; None for any other."""
    from moldau.client.errors import ClientError

    if isinstance(failure, ClientError):
        return _explain_client_error(failure)
    from confluent_kafka import KafkaError, KafkaException

    if isinstance(failure, KafkaException) and failure.args and isinstance(failure.args[0], KafkaError):
        return explain_kafka_error(failure.args[0])
    if isinstance(failure, KafkaException):
        return str(failure)
    return None


def _explain_client_error(failure: ClientError) -> str:
    from moldau.client.admin.problem import KafkaProblem
    from moldau.client.errors import UnknownTopic

    if isinstance(failure, UnknownTopic) and failure.topic:
        return with_advice(str(failure), "UNKNOWN_TOPIC_OR_PARTITION")
    if not isinstance(failure, KafkaProblem):
        return str(failure)
    text = str(failure).strip().rstrip(".")
    return with_advice(text if failure.name in text else f"{text} ({failure.name})", failure.name)


def exit_code(failure: BaseException) -> int:
    """How a command ends with what a client raised."""
    from moldau.client.errors import OptionError

    return MISUSED if isinstance(failure, OptionError) else FAILED


def error_name(failure: BaseException) -> str:
    """Kafka's or librdkafka's name for what a client raised; "" if it has none."""
    from moldau.client.admin.problem import KafkaProblem
    from moldau.client.errors import ClusterTimeout, RequestRefused

    if isinstance(failure, KafkaProblem):
        return failure.name
    if isinstance(failure, RequestRefused):
        return KafkaProblem(failure.error_code).name
    if isinstance(failure, ClusterTimeout):
        return KafkaProblem(failure.error_code).name if failure.error_code else "_TIMED_OUT"
    error: Any = failure.args[0] if failure.args else None
    return str(error.name()) if hasattr(error, "name") else ""


def with_advice(sentence: str, name: str) -> str:
    """The sentence, with what to do about an error of this name."""
    advice = ADVICE.get(_LIBRDKAFKA.get(name, name))
    return f"{sentence}: {advice}" if advice else sentence


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
    return with_advice(sentence, name)
