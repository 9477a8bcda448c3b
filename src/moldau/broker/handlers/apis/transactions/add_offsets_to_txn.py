"""AddOffsetsToTxn, versions 0-4: add a consumer group's offsets to a transaction.

    v2  PRODUCER_FENCED    v3  flexible    v4  TRANSACTION_ABORTABLE
The group's partition of __consumer_offsets becomes one of the transaction's partitions. The first request
creates that topic, as FindCoordinator does. Clients with transactions v2 do not send this: TxnOffsetCommit
adds the partition. The client must have Write on the transactional id, and Read on the group.
"""

from moldau.broker.handlers.apis.groups.find_coordinator import ensure_topic
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may
from moldau.broker.metadata.image import GROUP_OFFSETS_TOPIC
from moldau.common.core.waiting import Answer, settled
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from moldau.common.protocol.operations import Operation, ResourceType


@handles(AddOffsetsToTxnRequest)
def add_offsets_to_txn(
    broker: Broker, context: RequestContext, request: AddOffsetsToTxnRequest
) -> Answer[AddOffsetsToTxnResponse]:
    session = context.session
    if not may(broker, session, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not may(broker, session, Operation.READ, ResourceType.GROUP, request.group_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    if GROUP_OFFSETS_TOPIC in broker.metadata.image.topics:
        return _add(broker, context, request)
    return _create_and_add(broker, context, request)


async def _create_and_add(
    broker: Broker, context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse:
    if await ensure_topic(broker, GROUP_OFFSETS_TOPIC) is not None:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return await settled(_add(broker, context, request))


def _add(
    broker: Broker, context: RequestContext, request: AddOffsetsToTxnRequest
) -> Answer[AddOffsetsToTxnResponse]:
    return broker.transactions.add_offsets(request, context.api_version)
