"""The registry's routes over a service that records its calls."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
from starlette.requests import Request
from starlette.responses import Response

from moldau.services.http.context import Principal
from moldau.services.http.rights import Rights, parse_rights
from moldau.services.registry.app import registry_application
from moldau.services.registry.service import RegistryService
from moldau.services.registry.settings import RegistrySettings

SUBJECTS = ["orders", "payments", ":.ctx:orders"]


class Recorder(RegistryService):
    """Answers every call with its name and arguments."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.failure: Exception | None = None
        self.is_behind = False
        self.instance = self  # type: ignore[assignment]

    def check_registration(self, subject: str, request: Any, *, normalize: bool = False) -> None:
        """Only `register` counts."""

    def subjects(  # type: ignore[override]
        self,
        *prefixes: str,
        offset: int = 0,
        limit: int = -1,
        visible: Callable[[str], bool] | None = None,
        **rest: Any,
    ) -> list[str]:
        self._note("subjects", *prefixes, offset=offset, limit=limit, **rest)
        return [*filter(visible or bool, SUBJECTS)][offset:][: limit if limit > 0 else None]

    def subjects_of_id(self, schema_id: int, subject: str | None = None, **rest: Any) -> list[str]:
        self._note("subjects_of_id", schema_id, subject, **rest)
        rows = SUBJECTS[:1] if schema_id == 1 else SUBJECTS[1:]
        return rows[rest.get("offset", 0) :]

    def has_id(self, schema_id: int, subject: str | None = None) -> bool:
        return schema_id == 7

    def ids_of_guid(self, guid: str) -> list[dict[str, Any]]:
        self._note("ids_of_guid", guid)
        return [{"context": ".", "id": int(guid)}]

    def schemas(  # type: ignore[override]
        self,
        *prefixes: str,
        offset: int = 0,
        limit: int = -1,
        visible: Callable[[str], bool] | None = None,
        **rest: Any,
    ) -> list[Any]:
        self._note("schemas", *prefixes, offset=offset, limit=limit, **rest)
        return [{"subject": each} for each in filter(visible or bool, SUBJECTS)][offset:][
            : limit if limit > 0 else None
        ]

    def contexts(
        self,
        *,
        prefix: str = "",
        offset: int = 0,
        limit: int = -1,
        visible: Callable[[str], bool] | None = None,
    ) -> list[str]:
        self._note("contexts", prefix, offset=offset, limit=limit)
        shown = {".": "orders", ".ctx": ":.ctx:orders"}
        return [each for each, subject in shown.items() if visible is None or visible(subject)][offset:]

    def catch_up_after_miss(self) -> bool:
        self._note("catch_up_after_miss")
        return self.is_behind

    def _note(self, *args: Any, **rest: Any) -> None:
        self.calls.append((*args, rest))
        if self.failure is not None and not args[0].startswith("catch_up"):
            raise self.failure


def _recorded(name: str) -> Callable[..., Any]:
    def method(self: Recorder, *args: Any, **rest: Any) -> Any:
        self._note(name, *args, **rest)
        return {"schema": "text", "called": name}

    return method


for _name in (
    "versions", "version", "referenced_by", "with_metadata", "look_up", "register", "delete_subject",
    "delete_version", "types", "schema_by_id", "versions_of_id", "schema_by_guid", "compatibility", "config",
    "set_config", "delete_config", "mode", "set_mode", "delete_mode", "cluster_id", "delete_context",
    "catch_up", "change_tags",
):  # fmt: skip
    setattr(Recorder, _name, _recorded(_name))
Recorder.versions_of_id = lambda self, *args, **rest: (
    []
    if rest["offset"]
    # type: ignore[method-assign]
    else (
        self._note("versions_of_id", *args, **rest) or [{"subject": each, "version": 1} for each in SUBJECTS]
    )
)


class Known:
    """A gate that lets the user of the header X-User in."""

    asks_everybody = True

    async def principal_of(self, request: Request) -> Principal:
        return Principal(request.headers.get("x-user", "nobody"))


async def _forward(url: str, request: Request, body: bytes) -> Response:
    return Response(f"forwarded to {url}: {request.method} {request.url.path} {body.decode()}".encode())


def ask(
    method: str,
    path: str,
    body: Any = None,
    *,
    service: Recorder | None = None,
    content: bytes | None = None,
    rights: str | None = None,
    headers: dict[str, str] | None = None,
    **options: Any,
) -> tuple[httpx.Response, list[tuple[Any, ...]]]:
    service = service or Recorder()
    application = registry_application(
        service,
        RegistrySettings(),
        forward=_forward,
        gate=Known(),
        rights=None if rights is None else Rights(parse_rights(rights, "rights")),
        **options,
    )

    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return await client.request(
                method, path, json=body if content is None else None, content=content, headers=headers
            )

    return asyncio.run(run()), service.calls


SCHEMA = {"schema": "{}"}
