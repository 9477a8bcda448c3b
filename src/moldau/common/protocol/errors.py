"""The error codes of the protocol, as a table: number, whether it is retriable, and message.

Names and numbers are Kafka's (4.3). A response carries the number; our messages use the text.
"""

from __future__ import annotations

from enum import IntEnum

RETRIABLE = True


class ErrorCode(IntEnum):
    """A domain error. `retriable`: clients may retry, with new metadata where that helps."""

    message: str
    retriable: bool

    def __new__(cls, code: int, message: str, retriable: bool = False) -> ErrorCode:
        """Create one row of the table."""
        row = int.__new__(cls, code)
        row._value_, row.message, row.retriable = code, message, retriable
        return row

    UNKNOWN_SERVER_ERROR = -1, "The broker failed in a way it did not expect; its log says how."
    NONE = 0, "No error."
    OFFSET_OUT_OF_RANGE = 1, "The offset lies outside what the partition's log holds."
    CORRUPT_MESSAGE = 2, "A record batch is damaged, too long or not allowed as it is.", RETRIABLE
    UNKNOWN_TOPIC_OR_PARTITION = 3, "This broker has no such topic or partition.", RETRIABLE
    INVALID_FETCH_SIZE = 4, "The number of bytes to fetch makes no sense."
    LEADER_NOT_AVAILABLE = 5, "The partition has no leader at the moment.", RETRIABLE
    NOT_LEADER_OR_FOLLOWER = (
        6,
        "This broker is not the partition's leader, or has no replica of it.",
        RETRIABLE,
    )
    REQUEST_TIMED_OUT = 7, "The request was not done within its time.", RETRIABLE
    BROKER_NOT_AVAILABLE = 8, "The broker is not available."
    REPLICA_NOT_AVAILABLE = 9, "The replica is not available.", RETRIABLE
    MESSAGE_TOO_LARGE = 10, "A record batch is larger than max.message.bytes allows."
    STALE_CONTROLLER_EPOCH = 11, "Another controller has taken over."
    OFFSET_METADATA_TOO_LARGE = 12, "The text stored with an offset is too long."
    NETWORK_EXCEPTION = 13, "The connection broke before the answer came.", RETRIABLE
    COORDINATOR_LOAD_IN_PROGRESS = 14, "The coordinator is still reading its state.", RETRIABLE
    COORDINATOR_NOT_AVAILABLE = 15, "There is no coordinator at the moment.", RETRIABLE
    NOT_COORDINATOR = 16, "Another broker is the coordinator.", RETRIABLE
    INVALID_TOPIC_EXCEPTION = 17, "The topic name is not allowed, or the topic may not be used this way."
    RECORD_LIST_TOO_LARGE = 18, "The record batches are longer than a log segment."
    NOT_ENOUGH_REPLICAS = 19, "Fewer replicas are in sync than min.insync.replicas asks for.", RETRIABLE
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        "The records are written, but on fewer replicas than min.insync.replicas asks for.",
        RETRIABLE,
    )
    INVALID_REQUIRED_ACKS = 21, "acks must be 0, 1 or -1 (all)."
    ILLEGAL_GENERATION = 22, "The group is in another generation."
    INCONSISTENT_GROUP_PROTOCOL = 23, "The member has no protocol type or assignor in common with the group."
    INVALID_GROUP_ID = 24, "The group id is not allowed."
    UNKNOWN_MEMBER_ID = 25, "The group has no such member."
    INVALID_SESSION_TIMEOUT = 26, "The session timeout is outside the broker's limits."
    REBALANCE_IN_PROGRESS = 27, "The group is rebalancing; join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, "The offsets are too large to be stored."
    TOPIC_AUTHORIZATION_FAILED = 29, "Not allowed on this topic."
    GROUP_AUTHORIZATION_FAILED = 30, "Not allowed on this group."
    CLUSTER_AUTHORIZATION_FAILED = 31, "Not allowed on this cluster."
    INVALID_TIMESTAMP = 32, "A record's timestamp is outside the topic's limits."
    UNSUPPORTED_SASL_MECHANISM = 33, "The SASL mechanism is not enabled."
    ILLEGAL_SASL_STATE = 34, "The request does not fit into the SASL exchange at this point."
    UNSUPPORTED_VERSION = 35, "The version of the request is not supported."
    TOPIC_ALREADY_EXISTS = 36, "A topic of this name exists."
    INVALID_PARTITIONS = 37, "The number of partitions is not possible."
    INVALID_REPLICATION_FACTOR = 38, "The replication factor is not possible with these brokers."
    INVALID_REPLICA_ASSIGNMENT = 39, "The assignment of replicas to brokers is not possible."
    INVALID_CONFIG = 40, "A setting is unknown or has a value that it cannot have."
    NOT_CONTROLLER = 41, "Another node is the controller.", RETRIABLE
    INVALID_REQUEST = 42, "The request contradicts itself or the protocol."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "The record format in use cannot do this."
    POLICY_VIOLATION = 44, "A policy of the cluster forbids this."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "The producer's sequence number leaves a gap; records may be missing."
    DUPLICATE_SEQUENCE_NUMBER = 46, "The producer's sequence number was used before."
    INVALID_PRODUCER_EPOCH = 47, "The producer's epoch is out of date."
    INVALID_TXN_STATE = 48, "The transaction is in a state that does not allow this."
    INVALID_PRODUCER_ID_MAPPING = 49, "The producer id does not belong to this transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, "The transaction timeout is longer than the broker allows."
    CONCURRENT_TRANSACTIONS = 51, "The previous transaction of this producer is not finished.", RETRIABLE
    TRANSACTION_COORDINATOR_FENCED = 52, "Another transaction coordinator has taken over."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "Not allowed with this transactional id."
    SECURITY_DISABLED = 54, "The cluster has no authorizer."
    OPERATION_NOT_ATTEMPTED = 55, "Not tried, because something else in the request failed."
    KAFKA_STORAGE_ERROR = 56, "The disk is full or failing.", RETRIABLE
    LOG_DIR_NOT_FOUND = 57, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, "Authentication failed."
    UNKNOWN_PRODUCER_ID = 59, "The partition has forgotten this producer."
    REASSIGNMENT_IN_PROGRESS = 60, "The partition is being moved."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "Delegation tokens are not enabled."
    DELEGATION_TOKEN_NOT_FOUND = 62, "There is no such delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "The delegation token belongs to somebody else."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "Delegation tokens cannot be asked for over this connection."
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "Not allowed with this delegation token."
    DELEGATION_TOKEN_EXPIRED = 66, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, "The type of principal is not supported."
    NON_EMPTY_GROUP = 68, "The group has members."
    GROUP_ID_NOT_FOUND = 69, "There is no such group."
    FETCH_SESSION_ID_NOT_FOUND = 70, "The broker has forgotten this fetch session.", RETRIABLE
    INVALID_FETCH_SESSION_EPOCH = 71, "The fetch session is in another epoch.", RETRIABLE
    LISTENER_NOT_FOUND = 72, "The leader has no listener of the kind that this connection uses.", RETRIABLE
    TOPIC_DELETION_DISABLED = 73, "Topics cannot be deleted here (delete.topic.enable)."
    FENCED_LEADER_EPOCH = 74, "The partition has a newer leader epoch.", RETRIABLE
    UNKNOWN_LEADER_EPOCH = 75, "The leader epoch is newer than this broker knows.", RETRIABLE
    UNSUPPORTED_COMPRESSION_TYPE = 76, "The compression is not supported in this version of the request."
    STALE_BROKER_EPOCH = 77, "The broker has registered anew."
    OFFSET_NOT_AVAILABLE = 78, "The new leader does not know its high watermark yet.", RETRIABLE
    MEMBER_ID_REQUIRED = 79, "Join again with the member id in this answer."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "The preferred leader is not available.", RETRIABLE
    GROUP_MAX_SIZE_REACHED = 81, "The group has as many members as it may have."
    FENCED_INSTANCE_ID = 82, "Another member has taken over this static instance id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "No replica that may lead is available.", RETRIABLE
    ELECTION_NOT_NEEDED = 84, "The partition has the leader asked for.", RETRIABLE
    NO_REASSIGNMENT_IN_PROGRESS = 85, "The partition is not being moved."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "The group still subscribes to the topic."
    INVALID_RECORD = 87, "A record breaks the topic's rules."
    UNSTABLE_OFFSET_COMMIT = 88, "A transaction that touches these offsets is still open.", RETRIABLE
    THROTTLING_QUOTA_EXCEEDED = 89, "The quota is used up; wait as long as the answer says.", RETRIABLE
    PRODUCER_FENCED = 90, "A newer producer uses this transactional id."
    RESOURCE_NOT_FOUND = 91, "There is no such resource."
    DUPLICATE_RESOURCE = 92, "The request names a resource twice."
    UNACCEPTABLE_CREDENTIAL = 93, "The credential does not meet the requirements."
    INCONSISTENT_VOTER_SET = 94, "The set of voters is not the one expected."
    INVALID_UPDATE_VERSION = 95, "The feature cannot have this version."
    FEATURE_UPDATE_FAILED = 96, "The features could not be updated."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "The forwarded principal cannot be read."
    SNAPSHOT_NOT_FOUND = 98, "There is no such snapshot."
    POSITION_OUT_OF_RANGE = 99, "The position lies outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, "This broker knows no topic of this id.", RETRIABLE
    DUPLICATE_BROKER_REGISTRATION = 101, "A broker of this id is registered and alive."
    BROKER_ID_NOT_REGISTERED = 102, "No broker of this id is registered."
    INCONSISTENT_TOPIC_ID = 103, "The topic has another id on this broker.", RETRIABLE
    INCONSISTENT_CLUSTER_ID = 104, "The request is meant for another cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, "There is no such transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "The fetch session mixes topic names and topic ids.", RETRIABLE
    INELIGIBLE_REPLICA = 107, "The replica may not join the in-sync set."
    NEW_LEADER_ELECTED = 108, "The change made another replica the leader."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "The offset is in remote storage only."
    FENCED_MEMBER_EPOCH = 110, "The member's epoch is out of date; join again."
    UNRELEASED_INSTANCE_ID = 111, "Another member still holds this static instance id."
    UNSUPPORTED_ASSIGNOR = 112, "The broker has no such assignor."
    STALE_MEMBER_EPOCH = 113, "The member's epoch is out of date; try again after its next heartbeat."
    MISMATCHED_ENDPOINT_TYPE = 114, "The request came to the wrong kind of node."
    UNSUPPORTED_ENDPOINT_TYPE = 115, "This kind of node cannot be asked for."
    UNKNOWN_CONTROLLER_ID = 116, "There is no such controller."
    UNKNOWN_SUBSCRIPTION_ID = 117, "The metrics subscription has changed; ask for it again."
    TELEMETRY_TOO_LARGE = 118, "The metrics are longer than allowed."
    INVALID_REGISTRATION = 119, "The controller refused the broker's registration."
    TRANSACTION_ABORTABLE = 120, "The transaction has failed and must be aborted."
    INVALID_RECORD_STATE = 121, "The record is in a state that does not allow this acknowledgement."
    SHARE_SESSION_NOT_FOUND = 122, "The broker has forgotten this share session.", RETRIABLE
    INVALID_SHARE_SESSION_EPOCH = 123, "The share session is in another epoch.", RETRIABLE
    FENCED_STATE_EPOCH = 124, "The share coordinator's state has a newer epoch."
    INVALID_VOTER_KEY = 125, "The voter key is not this node's."
    DUPLICATE_VOTER = 126, "The voter is in the set of voters."
    VOTER_NOT_FOUND = 127, "The voter is not in the set of voters."
    INVALID_REGULAR_EXPRESSION = 128, "The regular expression cannot be parsed."
    REBOOTSTRAP_REQUIRED = (
        129,
        "The client's view of the cluster is too old; start again from its bootstrap servers.",
    )
    STREAMS_INVALID_TOPOLOGY = 130, "The streams topology is not valid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "The streams topology has an epoch that is not valid."
    STREAMS_TOPOLOGY_FENCED = 132, "The streams topology's epoch is out of date."
    SHARE_SESSION_LIMIT_REACHED = 133, "The broker has as many share sessions as it may have.", RETRIABLE


def error_name(error_code: int) -> str:
    """The name of an error code, for messages and logs; the number itself for an unknown one."""
    row = ErrorCode._value2member_map_.get(error_code)
    return str(error_code) if row is None else row.name


def error_message(error_code: int) -> str:
    """The sentence of an error code, for the messages of responses."""
    row = ErrorCode._value2member_map_.get(error_code)
    return f"Error {error_code}." if row is None else row.message  # type: ignore[attr-defined]
