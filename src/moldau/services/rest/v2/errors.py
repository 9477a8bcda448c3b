"""The errors of v2: Confluent's codes and words, and what Kafka's errors become.

A record that could not be written has its error in the response's list: 50002, or 50003 if it may be tried
again. (Confluent's older documentation has 1 and 2 there.)
"""

from http import HTTPStatus

from moldau.client.admin.problem import KafkaProblem
from moldau.common.protocol.errors import ErrorCode
from moldau.services.http.problems import HttpProblem

BAD_REQUEST = 40002
NOT_AUTHENTICATED = 40101
NOT_AUTHORIZED = 40301
TOPIC_NOT_FOUND = 40401
PARTITION_NOT_FOUND = 40402
INSTANCE_NOT_FOUND = 40403
LEADER_NOT_AVAILABLE = 40404
FORMAT_MISMATCH = 40601
ALREADY_EXISTS = 40902
ILLEGAL_STATE = 40903
UNPROCESSABLE = 422
KEY_SCHEMA_MISSING = 42201
VALUE_SCHEMA_MISSING = 42202
CONVERSION_FAILED = 42203
INVALID_CONSUMER_CONFIG = 42204
INVALID_CONSUMER_CONSTRAINT = 40001
TOO_MANY = 42901
KAFKA_ERROR = 50002
KAFKA_RETRIABLE_ERROR = 50003
BROKER_NOT_AVAILABLE = 50302

_OF_REQUESTS = {
    ErrorCode.BROKER_NOT_AVAILABLE: BROKER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: TOPIC_NOT_FOUND,
    ErrorCode.LEADER_NOT_AVAILABLE: LEADER_NOT_AVAILABLE,
    ErrorCode.INVALID_TOPIC_EXCEPTION: BAD_REQUEST,
    ErrorCode.UNSUPPORTED_VERSION: BAD_REQUEST,
    ErrorCode.INVALID_REQUEST: BAD_REQUEST,
    ErrorCode.INVALID_GROUP_ID: BAD_REQUEST,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: TOO_MANY,
}
_OF_ACCESS = {
    ErrorCode.SASL_AUTHENTICATION_FAILED: NOT_AUTHENTICATED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: NOT_AUTHORIZED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: NOT_AUTHORIZED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: NOT_AUTHORIZED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: NOT_AUTHORIZED,
}
_BY_NUMBER = {int(code): code for code in ErrorCode}


class UnprocessableProblem(HttpProblem):
    """A problem that is sent with 422, whatever its code begins with."""

    @property
    def status(self) -> int:
        """422."""
        return HTTPStatus.UNPROCESSABLE_ENTITY


def request_problem(problem: KafkaProblem) -> HttpProblem:
    """The error response for what Kafka answered to a whole request."""
    code = _OF_REQUESTS.get(_code(problem)) or record_error_code(problem)
    message = "Topic not found." if code == TOPIC_NOT_FOUND else str(problem)
    return HttpProblem(code, message)


def record_error_code(problem: KafkaProblem) -> int:
    """The error code of one record that was not written."""
    access = _OF_ACCESS.get(_code(problem))
    return access or (KAFKA_RETRIABLE_ERROR if problem.retriable else KAFKA_ERROR)


def _code(problem: KafkaProblem) -> ErrorCode:
    return _BY_NUMBER.get(problem.error_code, ErrorCode.UNKNOWN_SERVER_ERROR)


def topic_not_found() -> HttpProblem:
    """No such topic."""
    return HttpProblem(TOPIC_NOT_FOUND, "Topic not found.")


def partition_not_found() -> HttpProblem:
    """No such partition."""
    return HttpProblem(PARTITION_NOT_FOUND, "Partition not found.")


def instance_not_found() -> HttpProblem:
    """No such consumer instance, or no longer."""
    return HttpProblem(INSTANCE_NOT_FOUND, "Consumer instance not found.")


def format_mismatch() -> HttpProblem:
    """Records are asked for in another format than the instance was made for."""
    return HttpProblem(
        FORMAT_MISMATCH,
        "The requested embedded data format does not match the deserializer for this consumer instance",
    )


def already_exists() -> HttpProblem:
    """Another instance has this name."""
    return HttpProblem(
        ALREADY_EXISTS, "Consumer with specified consumer ID already exists in the specified consumer group."
    )


def illegal_state(what: str) -> HttpProblem:
    """Not possible now: no assignment, or a subscription of another kind."""
    return HttpProblem(ILLEGAL_STATE, f"Illegal state: {what}")


def invalid_config(what: str) -> HttpProblem:
    """A setting of a new instance is wrong."""
    return HttpProblem(INVALID_CONSUMER_CONFIG, f"Invalid consumer configuration: {what}")
