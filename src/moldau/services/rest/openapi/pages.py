"""The OpenAPI document at /openapi.json, and a page to try the operations at / and /ui.

A client of v2 that asks for `/` wants `{}`, as Confluent's proxy answers; a browser gets the page. The page
is one file with its script and style; it loads nothing from elsewhere, and its policy allows nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from moldau.services.http.answers import bytes_answer
from moldau.services.http.media_types import choose

_HTML = "text/html"
_CACHED = {"Cache-Control": "no-cache"}


def page_routes(described: Callable[[], Mapping[str, Any]]) -> list[Route]:
    """The routes of the document and the page; `described` makes the document when it is first asked for."""

    @cache
    def text() -> bytes:
        return orjson.dumps(described())

    async def document(request: Request) -> Response:
        return bytes_answer(text(), "application/json", headers=_CACHED)

    return [
        Route("/", _root, methods=["GET"]),
        Route("/ui", _page, methods=["GET"]),
        Route("/openapi.json", document, methods=["GET"]),
    ]


async def _root(request: Request) -> Response:
    accept = request.headers.get("accept")
    if accept and choose(accept, ("application/json", _HTML)) == _HTML:
        return await _page(request)
    return Response(b"{}", media_type="application/json")


async def _page(request: Request) -> Response:
    body, policy = _page_bytes()
    headers = {
        **_CACHED,
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }
    return bytes_answer(body, "text/html; charset=utf-8", headers=headers)


@cache
def _page_bytes() -> tuple[bytes, str]:
    """The page, and the policy that allows its own script and style only."""
    text = (files("moldau.services.rest.openapi") / "page.html").read_text("utf-8")
    script, style = _digest(text, "script"), _digest(text, "style")
    policy = (
        f"default-src 'none'; script-src '{script}'; style-src '{style}'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return text.encode(), policy


def _digest(text: str, element: str) -> str:
    found = re.search(rf"<{element}>(.*?)</{element}>", text, re.DOTALL)
    assert found is not None
    return "sha256-" + base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()
