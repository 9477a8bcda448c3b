"""EndTxn, versions 0-5: commit or abort a transaction; answered once the decision is durable.

    v2  PRODUCER_FENCED    v3  flexible    v4  TRANSACTION_ABORTABLE
    v5  the answer carries the producer's next id and epoch: it grows with every transaction (KIP-890)
The client must have Write on the transactional id. Not here: the decision (coordinator/transaction/), the
markers (replication/markers.py).
"""

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may
from moldau.common.core.waiting import Answer
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from moldau.common.protocol.operations import Operation, ResourceType


@handles(EndTxnRequest)
def end_txn(broker: Broker, context: RequestContext, request: EndTxnRequest) -> Answer[EndTxnResponse]:
    name = request.transactional_id
    if not may(broker, context.session, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
        return EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return broker.transactions.end_transaction(request, context.api_version)
