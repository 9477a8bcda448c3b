"""Kafka's errors as those of v3: an error code whose first digits are the HTTP status."""

from __future__ import annotations

from moldau.client.admin.problem import KafkaProblem
from moldau.common.protocol.errors import ErrorCode
from moldau.services.http.problems import HttpProblem

BAD_REQUEST = 40002
AUTHENTICATION_FAILED = 40101
NOT_AUTHORIZED = 40301
PARTITION_NOT_FOUND = 40402
UNKNOWN_TOPIC_OR_PARTITION = 40403
SERIALIZATION_FAILED = 40801
INVALID_PAYLOAD = 42206
BATCH_REFUSED = 42208
KAFKA_ERROR = 50002
KAFKA_RETRIABLE_ERROR = 50003
BROKER_NOT_AVAILABLE = 50302

_CODES = {
    ErrorCode.BROKER_NOT_AVAILABLE: BROKER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID: UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.GROUP_ID_NOT_FOUND: 404,
    ErrorCode.INVALID_REPLICATION_FACTOR: BAD_REQUEST,
    ErrorCode.SECURITY_DISABLED: BAD_REQUEST,
    ErrorCode.UNSUPPORTED_VERSION: BAD_REQUEST,
    ErrorCode.INVALID_PARTITIONS: BAD_REQUEST,
    ErrorCode.INVALID_REQUEST: BAD_REQUEST,
    ErrorCode.UNKNOWN_SERVER_ERROR: BAD_REQUEST,
    ErrorCode.POLICY_VIOLATION: BAD_REQUEST,
    ErrorCode.TOPIC_ALREADY_EXISTS: BAD_REQUEST,
    ErrorCode.INVALID_CONFIG: BAD_REQUEST,
    # Confluent's proxy answers these with 500, although nothing but the request is at fault.
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: BAD_REQUEST,
    ErrorCode.INVALID_TOPIC_EXCEPTION: BAD_REQUEST,
    ErrorCode.INVALID_PRINCIPAL_TYPE: BAD_REQUEST,
    ErrorCode.INVALID_TIMESTAMP: BAD_REQUEST,
    ErrorCode.MESSAGE_TOO_LARGE: 41302,
    ErrorCode.SASL_AUTHENTICATION_FAILED: AUTHENTICATION_FAILED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: NOT_AUTHORIZED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: NOT_AUTHORIZED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: NOT_AUTHORIZED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: NOT_AUTHORIZED,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: NOT_AUTHORIZED,
}


def http_problem(problem: KafkaProblem) -> HttpProblem:
    """The error response for what Kafka answered."""
    known = next((code for kafka, code in _CODES.items() if kafka == problem.error_code), None)
    if known is None:
        known = KAFKA_RETRIABLE_ERROR if problem.retriable else KAFKA_ERROR
    return HttpProblem(known, str(problem))


def not_found(what: str) -> HttpProblem:
    """A resource that does not exist and has no error code of its own."""
    return HttpProblem(404, what)
