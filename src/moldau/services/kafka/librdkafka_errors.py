"""librdkafka's errors as Kafka's: those that it found itself have numbers of its own."""

from confluent_kafka import KafkaError, KafkaException

from moldau.client.admin.problem import KafkaProblem
from moldau.common.protocol.errors import ErrorCode

_OWN = {
    KafkaError._UNKNOWN_TOPIC: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    KafkaError._UNKNOWN_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    KafkaError._MSG_TIMED_OUT: ErrorCode.REQUEST_TIMED_OUT,
    KafkaError._TIMED_OUT: ErrorCode.REQUEST_TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE: ErrorCode.REQUEST_TIMED_OUT,
    KafkaError._TRANSPORT: ErrorCode.NETWORK_EXCEPTION,
    KafkaError._RESOLVE: ErrorCode.NETWORK_EXCEPTION,
    KafkaError._ALL_BROKERS_DOWN: ErrorCode.NETWORK_EXCEPTION,
    KafkaError._WAIT_COORD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    KafkaError._AUTHENTICATION: ErrorCode.SASL_AUTHENTICATION_FAILED,
    KafkaError._SSL: ErrorCode.SASL_AUTHENTICATION_FAILED,
    KafkaError._UNSUPPORTED_FEATURE: ErrorCode.UNSUPPORTED_VERSION,
}


def problem_of(error: KafkaError) -> KafkaProblem:
    """The same error with Kafka's number and librdkafka's words."""
    code = error.code()
    if code < 0:
        code = _OWN.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)
    return KafkaProblem(int(code), str(error.str()))


def problem_in(raised: KafkaException) -> KafkaProblem:
    """The error that an exception of the client holds."""
    error = raised.args[0] if raised.args else None
    if isinstance(error, KafkaError):
        return problem_of(error)
    return KafkaProblem(int(ErrorCode.UNKNOWN_SERVER_ERROR), str(raised))
