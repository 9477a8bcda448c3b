"""Which requests change the cluster, and what each was about: for the audit, which has one event a request.

    CHANGES   by API key: (request, response) -> (name, error code) of all that it was about

Names only: a setting's value, a salted password or a token's secret is never in an event. What only validates
is no change.

The table's APIs are those that administrators use; what clients do all the time (producing, committing,
joining) is none of it.
"""

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from functools import partial
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.security.audit import NAMES_MAX, Outcome

if TYPE_CHECKING:
    from moldau.broker.handlers.parts.registry import Handler

Outcomes = Iterable[Outcome | None]
Row = Callable[[Any, Any], Outcomes]
Steps = Generator[None, None, Any]


def audited(handler: "Handler", api_key: int, name: str) -> "Handler":
    """The handler of an API of CHANGES, which tells `broker.audit` what came of the request."""

    def serve(broker: Broker, context: RequestContext, request: Any) -> Any:
        # Handlers may empty the request as they go: what it was about is looked at before.
        about = _ABOUT[api_key](request) if api_key in _ABOUT else None
        validates = getattr(request, "validate_only", False)
        client = _Asking(context)

        def tell(response: Any) -> Steps:
            if broker.audit is not None and not validates:
                yield from broker.audit.changed(client, name, CHANGES[api_key](about, response))
            return response

        async def awaited(reply: Awaitable[Any]) -> Any:
            return await broker.slow_lane.slices().run(tell(await reply))

        reply = handler(broker, context, request)
        if type(reply) is GeneratorType:
            return _in_steps(reply, tell)
        if isinstance(reply, Awaitable):
            return awaited(reply)
        return tell(reply)

    return serve


def _in_steps(reply: Steps, tell: Callable[[Any], Steps]) -> Steps:
    return (yield from tell((yield from reply)))


class _Asking:
    """Who asked, as it was then: another request may have come meanwhile."""

    def __init__(self, context: RequestContext) -> None:
        session = context.session
        self.principal = session.principal
        self.client_host = session.client_host
        self.client_id = session.client_id
        self.listener = session.listener


# What a request was about


def _rows(field: str, name: str) -> Row:
    def outcomes(_: Any, response: Any) -> Outcomes:
        return ((str(getattr(row, name)), row.error_code) for row in getattr(response, field))

    return outcomes


def _partitions(field: str, name: str, partitions: str, index: str = "partition_index") -> Row:
    def outcomes(_: Any, response: Any) -> Outcomes:
        if getattr(response, "error_code", 0):
            yield "", response.error_code
        for row in getattr(response, field):
            for each in getattr(row, partitions):
                yield f"{getattr(row, name)}-{getattr(each, index)}", each.error_code

    return outcomes


def _whole(about: str, response: Any) -> Outcomes:
    return [(about, response.error_code)]


def _created_acls(asked: list[Any], response: Any) -> Outcomes:
    for row, result in zip(asked, response.results, strict=True):
        yield partial(_acl, row, row.resource_pattern_type, row.permission_type), result.error_code


def _altered(asked: list[Any], response: Any) -> Outcomes:
    configs: dict[tuple[int, str], list[Any]] = {}
    for each in asked:
        configs[each.resource_type, each.resource_name] = each.configs
        yield None
    for row in response.responses:
        names = configs.get((row.resource_type, row.resource_name), [])
        yield partial(_configs, row, names), row.error_code


def _configs(row: Any, configs: list[Any]) -> str:
    kinds = {2: "topic", 4: "broker", 8: "loggers-of-broker", 16: "client-metrics", 32: "group"}
    kind = kinds.get(row.resource_type, str(row.resource_type))
    names = ",".join(one.name for one in configs[:NAMES_MAX])
    return f"{kind}:{row.resource_name or 'default'}({names})"


def _acl(row: Any, pattern_type: int, permission: int) -> str:
    from moldau.common.access.acl_text import described

    return described(
        row.resource_type, row.resource_name, pattern_type, row.principal, row.host, row.operation, permission
    )


def _deleted_acls(_: Any, response: Any) -> Outcomes:
    for each in response.filter_results:
        if each.error_code or not each.matching_acls:
            yield "(no ACL)", each.error_code
        for acl in each.matching_acls:
            yield partial(_acl, acl, acl.pattern_type, acl.permission_type), acl.error_code


def _entities(_: Any, response: Any) -> Outcomes:
    for row in response.entries:
        parts = (f"{each.entity_type}={each.entity_name or '<default>'}" for each in row.entity)
        yield ",".join(parts), row.error_code


def _mirrors(about: str, response: Any) -> Outcomes:
    if response.error_code or not response.topics:
        return _whole(about, response)
    return ((f"{about} {row.name}", row.error_code) for row in response.topics)


def _features(about: str, response: Any) -> Outcomes:
    return _rows("results", "feature")(None, response) if response.results else _whole(about, response)


CHANGES: Mapping[int, Row] = {
    19: _rows("topics", "name"),  # CreateTopics
    20: _rows("responses", "name"),  # DeleteTopics
    21: _partitions("topics", "name", "partitions"),  # DeleteRecords
    30: _created_acls,  # CreateAcls
    31: _deleted_acls,  # DeleteAcls
    33: _altered,  # AlterConfigs
    34: _partitions("results", "topic_name", "partitions"),  # AlterReplicaLogDirs
    37: _rows("results", "name"),  # CreatePartitions
    38: _whole,  # CreateDelegationToken
    39: _whole,  # RenewDelegationToken
    40: _whole,  # ExpireDelegationToken
    42: _rows("results", "group_id"),  # DeleteGroups
    43: _partitions("replica_election_results", "topic", "partition_result", "partition_id"),  # ElectLeaders
    44: _altered,  # IncrementalAlterConfigs
    45: _partitions("responses", "name", "partitions"),  # AlterPartitionReassignments
    47: _partitions("topics", "name", "partitions"),  # OffsetDelete
    49: _entities,  # AlterClientQuotas
    51: _rows("results", "user"),  # AlterUserScramCredentials
    57: _features,  # UpdateFeatures
    64: _whole,  # UnregisterBroker
    21000: _mirrors,  # AlterMirrors
}

_ABOUT: Mapping[int, Callable[[Any], Any]] = {
    30: lambda request: list(request.creations),
    33: lambda request: list(request.resources),
    38: lambda request: f"owner:{request.owner_principal_type or ''}:{request.owner_principal_name or ''}",
    39: lambda request: "token",
    40: lambda request: "token",
    44: lambda request: list(request.resources),
    57: lambda request: ",".join(each.feature for each in request.feature_updates[:NAMES_MAX]),
    64: lambda request: f"broker:{request.broker_id}",
    21000: lambda request: f"link:{request.link} {request.action}",
}
