"""Who may read what, by the names that a subject may be asked for with."""

import asyncio
from typing import Any

import httpx
import pytest
from memory_registry import MemoryRegistry, record
from starlette.requests import Request

from moldau.services.http.context import Principal
from moldau.services.http.rights import Rights, parse_rights
from moldau.services.registry.app import registry_application

RIGHTS = """
ann   read                subject:orders
ann   read                subject:mine*
ops   all                 subject:*
"""
OF_ALL_CONTEXTS = ("/config/:.__GLOBAL:", "/mode/:.__GLOBAL", "/contexts/.__GLOBAL/config")


class Known:
    """A gate that lets the user of the header X-User in."""

    asks_everybody = True

    async def principal_of(self, request: Request) -> Principal:
        return Principal(request.headers.get("x-user", "nobody"))


async def _no_forward(*_: Any) -> Any:
    raise AssertionError("nothing is forwarded")


@pytest.fixture
def registry() -> MemoryRegistry:
    registry = MemoryRegistry()
    registry.register(":.secret:orders", record("hidden"))
    registry.register("payments", record("paid"))
    return registry


def ask(registry: MemoryRegistry, who: str, method: str, path: str, body: Any = None) -> httpx.Response:
    application = registry_application(
        registry,
        registry.settings,
        forward=_no_forward,
        gate=Known(),
        rights=Rights(parse_rights(RIGHTS, "rights")),
    )

    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return await client.request(method, path, json=body, headers={"X-User": who})

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/subjects/orders/versions/1", None),
        ("GET", "/subjects/orders/versions/latest/schema", None),
        ("GET", "/subjects/orders/versions/1/referencedby", None),
        ("POST", "/subjects/orders", record("hidden")),
    ],
)
def test_a_right_to_a_name_is_none_to_that_name_in_another_context(
    registry: MemoryRegistry, method: str, path: str, body: Any
) -> None:
    """A name without a context is looked for in all contexts."""
    refused = ask(registry, "ann", method, path, body)
    assert refused.json() == {"error_code": 40401, "message": "Subject 'orders' not found."}
    assert ask(registry, "ops", method, path, body).status_code == 200


def test_the_default_context_may_be_written_out(registry: MemoryRegistry) -> None:
    """`:.:orders` is `orders`, for reads, settings and rights alike."""
    registry.register(":.:orders", record("open"))
    registry.set_config(":.:orders", {"compatibility": "FULL"})
    registry.set_mode(":.:orders", {"mode": "READWRITE"})
    assert registry.versions(":.:orders") == [1]
    assert registry.config(":.:orders") == {"compatibilityLevel": "FULL"}
    assert registry.mode(":.:orders") == {"mode": "READWRITE"}
    assert ask(registry, "ann", "GET", "/subjects/:.:orders/versions/1").json()["subject"] == "orders"
    assert ask(registry, "ann", "GET", "/subjects/:.:payments/versions/1").status_code == 403


def test_what_holds_for_all_is_not_set_with_a_right_to_subjects(registry: MemoryRegistry) -> None:
    for path in ("/config", "/config/:.:", "/mode/:.:", "/contexts/:.:/config", *OF_ALL_CONTEXTS):
        body = {"compatibility": "NONE", "mode": "READONLY"}
        assert ask(registry, "ops", "PUT", path, body).json()["error_code"] == 40301
    assert registry.config() == {"compatibilityLevel": "BACKWARD"}


def test_lists_for_few_rights_have_pages_too() -> None:
    limits = {"max": "3", "default": "2"}
    kinds = ("subject", "schema")
    registry = MemoryRegistry(
        {f"{kind}.search.{which}.limit": value for kind in kinds for which, value in limits.items()}
    )
    for number in range(4):
        registry.register(f"hers{number}", record("r"))
        registry.register(f"mine{number}", record("r"))
    for query, numbers in (("", (0, 1)), ("?limit=9", (0, 1)), ("?limit=3", (0, 1, 2)), ("?offset=3", (3,))):
        names = [f"mine{number}" for number in numbers]
        assert ask(registry, "ann", "GET", f"/subjects{query}").json() == names
        rows = ask(registry, "ann", "GET", f"/schemas{query}").json()
        assert [row["subject"] for row in rows] == names
    assert ask(registry, "ann", "GET", "/contexts").json() == ["."]
    assert ask(registry, "nobody", "GET", "/contexts").json() == []
