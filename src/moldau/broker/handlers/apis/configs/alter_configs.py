"""AlterConfigs, versions 0-2: replace all settings of resources; a setting that is not named is removed.

Clients should use IncrementalAlterConfigs: of two concurrent requests of this kind, one's changes are lost.
The client must have AlterConfigs on each resource (config_rights.py). Not here: loggers.
"""

from moldau.broker.controller.configs import AlterResource, Operation
from moldau.broker.controller.decision import Outcome
from moldau.broker.handlers.apis.configs.config_rights import config_refusal
from moldau.broker.handlers.apis.configs.store_check import unusable_stores
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.common.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from moldau.common.protocol.operations import Operation as Right


@handles(AlterConfigsRequest)
async def alter_configs(
    broker: Broker, context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    asked, refused = [], []
    async for resource in broker.slow_lane.slices().each(request.resources):
        kind, name = resource.resource_type, resource.resource_name
        outcome = config_refusal(broker, context.session, Right.ALTER_CONFIGS, kind, name)
        if outcome is not None:
            refused.append(_answer_row(kind, name, outcome))
            continue
        values = [(config.name, Operation.SET, config.value) for config in resource.configs]
        asked.append(AlterResource(kind, name, values, replace_all=True))
    asked, unusable = await unusable_stores(broker, asked)
    results = await broker.controller.alter_configs(asked, validate_only=request.validate_only)
    responses = [
        _answer_row(one.resource_type, one.resource_name, outcome) for one, outcome in results + unusable
    ]
    return AlterConfigsResponse(responses=responses + refused)


def _answer_row(resource_type: int, name: str, outcome: Outcome) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=outcome.error_code,
        error_message=outcome.message,
        resource_type=resource_type,
        resource_name=name,
    )
