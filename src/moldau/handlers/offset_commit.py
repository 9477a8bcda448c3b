"""OffsetCommit, versions 2-10: a member, or a consumer without a group, stores how far it has come.

    v5  retention_time_ms is gone           v7  static members
    v6  leader epoch of the offset          v9  member epochs of the consumer protocol (KIP-848)
                                            v10 topic ids
Not here: transactional commits (TxnOffsetCommit).
"""

from typing import Any

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.messages.offset_commit import OffsetCommitRequest


@handles(OffsetCommitRequest)
def offset_commit(broker: Broker, context: RequestContext, request: OffsetCommitRequest) -> Any:
    return broker.groups.offset_commit(request, context)
