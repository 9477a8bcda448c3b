"""AlterConfigs, versions 0-2: replace all settings of resources; a setting that is not named is removed.

Clients should use IncrementalAlterConfigs: of two concurrent requests of this kind, one's changes are lost.
Not here: loggers.
"""

from moldau.controller.configs import AlterResource, Operation
from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


@handles(AlterConfigsRequest)
async def alter_configs(
    broker: Broker, context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    asked = [
        AlterResource(
            resource.resource_type,
            resource.resource_name,
            [(config.name, Operation.SET, config.value) for config in resource.configs],
            replace_all=True,
        )
        for resource in request.resources
    ]
    results = await broker.controller.alter_configs(asked, validate_only=request.validate_only)
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=outcome.error_code,
                error_message=outcome.message,
                resource_type=one.resource_type,
                resource_name=one.resource_name,
            )
            for one, outcome in results
        ]
    )
