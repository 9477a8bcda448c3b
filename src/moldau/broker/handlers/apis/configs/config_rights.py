"""Which right the settings of a resource ask for: that on the topic or group, else that on the cluster.

    topic          topic          TOPIC_AUTHORIZATION_FAILED
    group          group          GROUP_AUTHORIZATION_FAILED
    broker, its loggers, client metrics: the cluster, CLUSTER_AUTHORIZATION_FAILED

A type of resource that does not exist needs no right: it is refused as a bad request. No API is registered
here.
"""

from moldau.broker.controller.decision import Outcome
from moldau.broker.handlers.parts.broker import Broker
from moldau.broker.handlers.parts.rights import may
from moldau.broker.handlers.parts.session import Session
from moldau.broker.metadata.image import ResourceType as ConfigType
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.operations import CLUSTER_NAME, Operation, ResourceType

_BY_NAME: dict[int, tuple[ResourceType, ErrorCode]] = {
    ConfigType.TOPIC: (ResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ConfigType.GROUP: (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
}
_OF_CLUSTER = frozenset({ConfigType.BROKER, ConfigType.BROKER_LOGGER, ConfigType.CLIENT_METRICS})


def config_refusal(
    broker: Broker, session: Session, operation: Operation, config_type: int, name: str
) -> Outcome | None:
    """Why the client may not describe or alter these settings; None: it may."""
    if broker.authorizer is None:
        return None
    resource_type, code = ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if config_type in _OF_CLUSTER:
        name = CLUSTER_NAME
    else:
        known = _BY_NAME.get(config_type)
        if known is None:
            return None
        resource_type, code = known
    if may(broker, session, operation, resource_type, name):
        return None
    return Outcome(code, code.message)
