"""IncrementalAlterConfigs, versions 0-1: set, remove, append to or subtract from settings (KIP-339).

Settings of topics, brokers and groups go through the controller and are stored; levels of loggers (KIP-412)
apply to this process only. The client must have AlterConfigs on each resource (config_rights.py).
"""

from moldau.broker.controller.configs import AlterResource
from moldau.broker.controller.decision import Outcome
from moldau.broker.handlers.apis.configs import logger_levels
from moldau.broker.handlers.apis.configs.config_rights import config_refusal
from moldau.broker.handlers.apis.configs.store_check import unusable_stores
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.metadata.image import ResourceType
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from moldau.common.protocol.operations import Operation


@handles(IncrementalAlterConfigsRequest)
async def incremental_alter_configs(
    broker: Broker, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    permitted, refused = [], []
    async for one in broker.slow_lane.slices().each(request.resources):
        kind, name = one.resource_type, one.resource_name
        outcome = config_refusal(broker, context.session, Operation.ALTER_CONFIGS, kind, name)
        if outcome is None:
            permitted.append(one)
        else:
            refused.append(_answer_row(kind, name, outcome))
    loggers = [one for one in permitted if one.resource_type == ResourceType.BROKER_LOGGER]
    stored = [one for one in permitted if one.resource_type != ResourceType.BROKER_LOGGER]
    asked, unusable = await unusable_stores(
        broker, [AlterResource(one.resource_type, one.resource_name, _operations(one)) for one in stored]
    )
    results = await broker.controller.alter_configs(asked, validate_only=request.validate_only)
    responses = [
        _answer_row(one.resource_type, one.resource_name, outcome) for one, outcome in results + unusable
    ]
    for one in loggers:
        outcome = _alter_loggers(broker, one, validate_only=request.validate_only)
        responses.append(_answer_row(one.resource_type, one.resource_name, outcome))
    return IncrementalAlterConfigsResponse(responses=responses + refused)


def _operations(resource: AlterConfigsResource) -> list[tuple[str, int, str | None]]:
    return [(config.name, config.config_operation, config.value) for config in resource.configs]


def _alter_loggers(broker: Broker, resource: AlterConfigsResource, *, validate_only: bool) -> Outcome:
    if resource.resource_name != str(broker.node_id):
        message = f"Unexpected broker id, expected {broker.node_id}, but received {resource.resource_name}"
        return Outcome(ErrorCode.INVALID_REQUEST, message)
    return logger_levels.alter(_operations(resource), validate_only=validate_only)


def _answer_row(resource_type: int, name: str, outcome: Outcome) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=outcome.error_code,
        error_message=outcome.message,
        resource_type=resource_type,
        resource_name=name,
    )
