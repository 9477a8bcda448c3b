"""What the controller's error for an in-sync change says about whether it was made (KIP-497)."""

from moldau.common.protocol.errors import ErrorCode

NOT_APPLIED = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""Errors that prove that it was not made, by this or an earlier attempt."""

AWAITS_METADATA = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""Errors after which a retry is useless: newer metadata is on its way. After any other error whether it was
made is unknown."""
