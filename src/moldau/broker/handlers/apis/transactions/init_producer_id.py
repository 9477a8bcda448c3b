"""InitProducerId, versions 0-5: an id under which a producer numbers its batches (KIP-98, KIP-360).

    v2  flexible    v3  producer id and epoch, to get a higher epoch
    v4  PRODUCER_FENCED    v5  TRANSACTION_ABORTABLE

An idempotent producer gets a new id with epoch 0, also if it names its former id: its sequence numbers begin
again. Ids are taken from blocks that are allocated in the metadata log, so that none is given twice, also
after a crash. A transactional producer gets the id of its transactional id with a higher epoch, which fences
the producer that had it before; the transaction coordinator decides that.

The client must have Write on the transactional id; without one, IdempotentWrite on the cluster or Write on
any topic (KIP-679).
"""

import logging

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may, may_on_cluster
from moldau.broker.handlers.parts.session import Session
from moldau.common.core.waiting import Answer
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.common.protocol.operations import Operation, ResourceType

log = logging.getLogger("moldau.handlers")


@handles(InitProducerIdRequest)
def init_producer_id(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> Answer[InitProducerIdResponse]:
    session = context.session
    if request.transactional_id is None:
        if not _may_be_idempotent(broker, session):
            return _refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return _fresh(broker)
    if not may(broker, session, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return _refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not request.transactional_id:
        return _refused(ErrorCode.INVALID_REQUEST)
    return broker.transactions.init_producer_id(request, context.api_version)


def _may_be_idempotent(broker: Broker, session: Session) -> bool:
    authorizer = broker.authorizer
    return (
        authorizer is None
        or authorizer.allows_any_resource(session, Operation.WRITE, ResourceType.TOPIC, quiet=True)
        or may_on_cluster(broker, session, Operation.IDEMPOTENT_WRITE)
    )


async def _fresh(broker: Broker) -> InitProducerIdResponse:
    try:
        return InitProducerIdResponse(producer_id=await broker.producer_ids.next(), producer_epoch=0)
    except OSError as error:
        # The block could not be written. Clients retry after this error.
        log.error("no producer id can be allocated: %s", error)
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def _refused(error_code: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error_code, producer_id=-1, producer_epoch=-1)
