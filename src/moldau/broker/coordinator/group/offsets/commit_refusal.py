"""The response to a TxnOffsetCommit request that is refused as a whole.

Its own file, because the handler needs it and must not import the coordinator: a broker starts without one.
"""

from moldau.common.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


def refuse_transactional_commit(request: TxnOffsetCommitRequest, error_code: int) -> TxnOffsetCommitResponse:
    """The response in which every partition has the same error."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=row.partition_index, error_code=error_code
                    )
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
