"""The registry as an HTTP application: all routes, behind a login, with its health and metrics."""

from collections.abc import Iterable, Sequence

from starlette.routing import BaseRoute

from moldau.services.http.application import Application, Gate, Health
from moldau.services.http.counters import Sample
from moldau.services.http.problems import HttpProblem
from moldau.services.http.rights import Rights
from moldau.services.registry.problems import RegistryProblem
from moldau.services.registry.routes.calls import OFFERED, Calls, Forward
from moldau.services.registry.routes.compatibility import CompatibilityRoutes
from moldau.services.registry.routes.levels import LevelRoutes
from moldau.services.registry.routes.schemas import SchemaRoutes
from moldau.services.registry.routes.server import ServerRoutes
from moldau.services.registry.routes.subjects import SubjectRoutes
from moldau.services.registry.service import RegistryService
from moldau.services.registry.settings import RegistrySettings


def routes_of(calls: Calls) -> Sequence[BaseRoute]:
    """Every path."""
    return [
        *SubjectRoutes(calls).routes(),
        *SchemaRoutes(calls).routes(),
        *CompatibilityRoutes(calls).routes(),
        *LevelRoutes(calls).routes(),
        *ServerRoutes(calls).routes(),
    ]


def registry_application(
    service: RegistryService,
    settings: RegistrySettings,
    *,
    forward: Forward,
    gate: Gate | None = None,
    rights: Rights | None = None,
    is_read_only: bool = False,
) -> Application:
    """The application; `forward` sends a write to the primary."""
    calls = Calls(
        service,
        forward,
        rights or Rights.all(),
        is_read_only,
        schema_bytes_max=settings.moldau_registry_schema_bytes_max,
    )
    return Application(
        routes_of(calls),
        settings,
        on_close=calls.close,
        offered=lambda path: OFFERED,
        gate=gate,
        health=lambda: _health(service),
        metrics=lambda principal: _metrics(service),
        metrics_prefix="moldau_registry",
        translate=_translate,
    )


def _translate(failure: Exception) -> HttpProblem | None:
    return HttpProblem(failure.error_code, failure.message) if isinstance(failure, RegistryProblem) else None


def _health(service: RegistryService) -> Health:
    detail = {"primary": service.instance.is_primary, "primary_url": service.instance.primary_url}
    return Health(service.instance.is_ready, detail)


def _metrics(service: RegistryService) -> Iterable[Sample]:
    here = service.instance
    yield Sample(
        "moldau_registry_ready",
        "Whether reads and writes are answered.",
        "gauge",
        int(here.is_ready),
    )
    yield Sample("moldau_registry_primary", "Whether this instance writes.", "gauge", int(here.is_primary))
