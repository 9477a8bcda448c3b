"""Before key and trust stores are changed: can this broker use the new ones?

As in Kafka, the broker that takes the request tries them (other brokers keep their old certificate and say so
in /health if theirs cannot be used). Files are read on a worker.
"""

from collections.abc import Sequence

from moldau.broker.controller.configs import AlterResource, changed_configs
from moldau.broker.controller.decision import Outcome, Refusal
from moldau.broker.handlers.parts.broker import Broker
from moldau.broker.metadata.changes import replay
from moldau.broker.metadata.configs import effective_broker_settings
from moldau.broker.metadata.image import ResourceType
from moldau.common.protocol.errors import ErrorCode


async def unusable_stores(
    broker: Broker, asked: Sequence[AlterResource]
) -> tuple[list[AlterResource], list[tuple[AlterResource, Outcome]]]:
    """Those of `asked` that go on to the controller, and those whose stores cannot be used, with reasons."""
    if broker.check_stores is None:
        return list(asked), []
    good: list[AlterResource] = []
    bad: list[tuple[AlterResource, Outcome]] = []
    for one in asked:
        problem = await _problem(broker, one) if _concerns_stores(broker, one) else None
        if problem is None:
            good.append(one)
        else:
            bad.append((one, Outcome(ErrorCode.INVALID_CONFIG, problem)))
    return good, bad


def _concerns_stores(broker: Broker, one: AlterResource) -> bool:
    if one.resource_type != ResourceType.BROKER or one.resource_name not in ("", str(broker.node_id)):
        return False
    return one.replace_all or any("ssl." in name for name, _, _ in one.operations)


async def _problem(broker: Broker, one: AlterResource) -> str | None:
    image = broker.metadata.image
    try:
        change = changed_configs(image, one, broker.settings)
    except Refusal:
        return None  # the controller says why
    if change is None or not any("ssl." in name for name in change.values):
        return None
    changed = replay(image, image.version, [change])
    settings = effective_broker_settings(changed, broker.controller.static_settings.broker, broker.node_id)
    assert broker.check_stores is not None
    return await broker.check_stores(settings)
