"""UnregisterBroker, version 0: remove a broker that is gone for good.

Not as in Kafka: a broker that is running, or that partitions still have as a replica, is not removed. Kafka
removes it, and leaves partitions with a replica that nobody knows. The client must have Alter on the cluster.
"""

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may_on_cluster
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from moldau.common.protocol.operations import Operation


@handles(UnregisterBrokerRequest)
async def unregister_broker(
    broker: Broker, context: RequestContext, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    if not may_on_cluster(broker, context.session, Operation.ALTER):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return UnregisterBrokerResponse(error_code=code, error_message=code.message)
    outcome = await broker.controller.unregister_broker(request.broker_id)
    return UnregisterBrokerResponse(error_code=outcome.error_code, error_message=outcome.message)
