"""InitProducerId, versions 0-5: an id under which a producer numbers its batches (KIP-98, KIP-360).

    v2  flexible    v3  producer id and epoch (a producer that wants a new epoch)    v4  PRODUCER_FENCED

An idempotent producer gets a fresh id with epoch 0; one that names its former id gets a fresh one too, as its
old sequence numbers are then nobody's. Ids come from blocks that the metadata log hands out, so that none is
given twice, also not after kill -9. Not here: transactional ids.
"""

import logging
from collections.abc import Awaitable

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

log = logging.getLogger("moldau.handlers")


@handles(InitProducerIdRequest)
def init_producer_id(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    if request.transactional_id is not None:
        empty = request.transactional_id == ""
        error_code = ErrorCode.INVALID_REQUEST if empty else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return InitProducerIdResponse(error_code=error_code, producer_id=-1, producer_epoch=-1)
    return _fresh(broker)


async def _fresh(broker: Broker) -> InitProducerIdResponse:
    try:
        return InitProducerIdResponse(producer_id=await broker.producer_ids.next(), producer_epoch=0)
    except OSError as error:
        # The block could not be written down. This is the code that clients take as "try again".
        log.error("no producer id can be given: %s", error)
        error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return InitProducerIdResponse(error_code=error_code, producer_id=-1, producer_epoch=-1)
