"""The worker's REST interface as an HTTP application."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from starlette.routing import BaseRoute

from moldau.services.connect.herder.interface import Herder
from moldau.services.connect.routes.calls import Calls, Resolve, translate
from moldau.services.connect.routes.connectors import ConnectorRoutes
from moldau.services.connect.routes.loggers import LoggerRoutes, Loggers
from moldau.services.connect.routes.offsets import OffsetRoutes
from moldau.services.connect.routes.plugins import PluginRoutes
from moldau.services.connect.routes.states import StateRoutes
from moldau.services.connect.routes.workers import ALGORITHM, SIGNATURE, WorkerRoutes
from moldau.services.connect.validation.overrides import OverridePolicy
from moldau.services.http.application import Application, Gate
from moldau.services.http.context import Principal
from moldau.services.http.counters import Sample
from moldau.services.http.forwarding import Reach
from moldau.services.http.rights import Kind, Operation, Rights
from moldau.services.http.settings import HttpSettingsPart


def connect_application(
    herder: Herder,
    settings: HttpSettingsPart,
    *,
    resolve: Resolve,
    policy: OverridePolicy,
    reach: Reach,
    gate: Gate | None = None,
    rights: Rights | None = None,
    loggers: Loggers | None = None,
    metrics: Callable[[Callable[[str], bool]], Iterable[Sample]] = lambda may_see: (),
) -> Application:
    """`resolve` replaces references to secrets; `reach` is how the leader is reached; `metrics` are those
    of connectors that somebody may see."""
    calls = Calls(herder, resolve, policy, reach, rights or Rights.all(), (SIGNATURE, ALGORITHM))

    def seen_by(principal: Principal) -> Iterable[Sample]:
        return metrics(calls.rights.filter(principal, Operation.READ, Kind.CONNECTOR))

    routes: list[BaseRoute] = [
        *WorkerRoutes(calls).routes(),
        *ConnectorRoutes(calls).routes(),
        *StateRoutes(calls).routes(),
        *OffsetRoutes(calls).routes(),
        *PluginRoutes(calls).routes(),
        *LoggerRoutes(calls, loggers or Loggers()).routes(),
    ]
    return Application(
        routes,
        settings,
        on_close=calls.close,
        gate=gate,
        own_pages=frozenset({"/health"}),
        metrics=seen_by,
        metrics_prefix="moldau_connect",
        translate=translate,
    )
