"""UnregisterBroker, version 0: remove a broker that is gone for good.

Not as in Kafka: a broker that is running, or that partitions still have as a replica, is not removed. Kafka
removes it, and leaves partitions with a replica that nobody knows.
"""

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


@handles(UnregisterBrokerRequest)
async def unregister_broker(
    broker: Broker, context: RequestContext, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    del context
    outcome = await broker.controller.unregister_broker(request.broker_id)
    return UnregisterBrokerResponse(error_code=outcome.error_code, error_message=outcome.message)
