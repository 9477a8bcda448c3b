"""InitProducerId, versions 0-5: an id under which a producer numbers its batches (KIP-98, KIP-360).

    v2  flexible    v3  producer id and epoch (a producer that wants a new epoch)
    v4  PRODUCER_FENCED    v5  TRANSACTION_ABORTABLE

An idempotent producer gets a fresh id with epoch 0; one that names its former id gets a fresh one too, as its
old sequence numbers are then nobody's. Ids come from blocks that the metadata log hands out, so that none is
given twice, also not after kill -9. A transactional producer gets the id of its transactional id, with an
epoch that fences whoever had it before: that is the transaction coordinator's decision.
"""

import logging

from moldau.core.waiting import Answer
from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

log = logging.getLogger("moldau.handlers")


@handles(InitProducerIdRequest)
def init_producer_id(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> Answer[InitProducerIdResponse]:
    if request.transactional_id is None:
        return _fresh(broker)
    if not request.transactional_id:
        return _refused(ErrorCode.INVALID_REQUEST)
    return broker.transactions.init_producer_id(request, context.api_version)


async def _fresh(broker: Broker) -> InitProducerIdResponse:
    try:
        return InitProducerIdResponse(producer_id=await broker.producer_ids.next(), producer_epoch=0)
    except OSError as error:
        # The block could not be written down. This is the code that clients take as "try again".
        log.error("no producer id can be given: %s", error)
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def _refused(error_code: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error_code, producer_id=-1, producer_epoch=-1)
