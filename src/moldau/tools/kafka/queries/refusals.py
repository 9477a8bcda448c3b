"""What a broker refuses, in the words of Kafka's tools, which scripts look for.

A broker's answer may carry the reason in words; where it has none, Kafka's client has its own for the error
code. Some tools print them alone (`told`), others after the name of Java's exception (`raise_for`).
"""

from __future__ import annotations

from moldau.client.admin.problem import KafkaProblem
from moldau.client.errors import error_words
from moldau.common.protocol.errors import ErrorCode
from moldau.tools.kafka.problems import ToolError

_CODES = {int(code): code for code in ErrorCode}
WORDS: dict[int, str] = {
    ErrorCode.OFFSET_OUT_OF_RANGE: (
        "The requested offset is not within the range of offsets maintained by the server."
    ),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "The request attempted to perform an operation on an invalid topic.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TOPIC_ALREADY_EXISTS: "Topic with this name already exists.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it."
    ),
    ErrorCode.UNKNOWN_MEMBER_ID: "The coordinator is not aware of this member.",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "Delegation Token feature is not enabled.",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "Delegation Token is not found on server.",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "Specified Principal is not valid Owner/Renewer.",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: (
        "Delegation Token requests are not allowed on PLAINTEXT/1-way SSL channels and on delegation token "
        "authenticated channels."
    ),
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "Delegation Token authorization failed.",
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "Delegation Token is expired.",
    ErrorCode.INVALID_PRINCIPAL_TYPE: "Supplied principalType is not supported.",
}
"""Kafka's own words for codes that come without any."""
_SPECIAL = {
    "UNKNOWN_SERVER_ERROR": "UnknownServerException",
    "CORRUPT_MESSAGE": "CorruptRecordException",
    "UNKNOWN_TOPIC_OR_PARTITION": "UnknownTopicOrPartitionException",
    "UNKNOWN_TOPIC_ID": "UnknownTopicIdException",
    "REQUEST_TIMED_OUT": "TimeoutException",
    "KAFKA_STORAGE_ERROR": "KafkaStorageException",
    "CLUSTER_AUTHORIZATION_FAILED": "ClusterAuthorizationException",
    "INVALID_REQUEST": "InvalidRequestException",
}


def told(failure: ToolError | KafkaProblem) -> str:
    """The text of a failure: of a refusal the reason alone, as Kafka's exceptions have it."""
    if isinstance(failure, ToolError):
        return str(failure)
    return failure.reason or words_of(failure.error_code)


def words_of(error_code: int) -> str:
    """What Kafka's client says for a code that comes without words."""
    return WORDS.get(error_code) or error_words(error_code)


def exception_name(error_code: int) -> str:
    """Java's class for an error: scripts and people know errors by it."""
    name = _CODES[error_code].name if error_code in _CODES else "UNKNOWN_SERVER_ERROR"
    simple = _SPECIAL.get(name) or "".join(part.capitalize() for part in name.split("_")) + "Exception"
    return f"org.apache.kafka.common.errors.{simple}"


def error_text(error_code: int, message: str | None = None) -> str:
    """The text of an error: the broker's own, else Kafka's."""
    if message:
        return message
    return _CODES[error_code].message if error_code in _CODES else f"error {error_code}"


def raise_for(error_code: int, message: str | None = None) -> None:
    """Return for code 0; else ToolError with Java's name and the text."""
    if error_code:
        raise ToolError(f"{exception_name(error_code)}: {error_text(error_code, message)}")
