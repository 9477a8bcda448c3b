"""Requests and responses: paths, media types, errors, bodies, what is counted."""

import asyncio
import gzip
import json
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from http_service import Client, client_of, service, until

from moldau.services.http.media_types import choose

JSON = ("application/vnd.example.v1+json", "application/json")


def ask(talk: Callable[[Client], Awaitable[Any]], **settings: Any) -> Any:
    """What a conversation with the service gives."""

    async def run() -> Any:
        async with service(**settings) as server, client_of(server) as client:
            return await talk(client)

    return asyncio.run(run())


def test_json_comes_back_in_the_media_type_asked_for() -> None:
    async def talk(client: Client) -> None:
        status, headers, body = await client.ask("POST", "/echo", b'{"a": [1]}')
        assert (status, headers["content-type"], body) == (200, JSON[0], b'{"a":[1]}')
        _, headers, _ = await client.ask("POST", "/echo", b"[]", Accept="application/json")
        assert headers["content-type"] == JSON[1]
        status, headers, body = await client.ask("POST", "/echo", b"[]", Accept="text/plain")
        assert status == 406
        assert json.loads(body) == {"error_code": 406, "message": "HTTP 406 Not Acceptable"}

    ask(talk)


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        (None, JSON[0]),
        ("", JSON[0]),
        ("*/*", JSON[0]),
        ("application/*;q=0.2, application/json", JSON[1]),
        ("application/json;q=0.1, */*;q=0.5", JSON[0]),
        ("application/json; q=0, */*", JSON[0]),
        ("text/plain, image/*", None),
        ("application/json;q=nonsense", None),
        (",;,/", None),
    ],
)
def test_the_accept_header_decides(accept: str | None, chosen: str | None) -> None:
    assert choose(accept, JSON) == chosen


def test_names_may_have_slashes_spaces_and_any_letters() -> None:
    async def talk(client: Client) -> None:
        for sent, name in (
            ("a%2Fb", "a/b"),
            ("a%2fb", "a/b"),
            ("a%252Fb", "a%2Fb"),
            ("a%20b+c", "a b+c"),
            ("%C5%99eka", "řeka"),
            (":.ctx:s", ":.ctx:s"),
        ):
            _, _, body = await client.ask("GET", f"/names/{sent}")
            assert json.loads(body) == name
        status, _, _ = await client.ask("GET", "/names/a/")
        assert status == 200
        status, _, _ = await client.ask("GET", "/names/%ff%fe")
        assert status == 200

    ask(talk)


def test_what_is_not_there_is_said_in_json() -> None:
    async def talk(client: Client) -> None:
        status, _, body = await client.ask("GET", "/nowhere")
        assert (status, json.loads(body)["message"]) == (404, "HTTP 404 Not Found")
        status, headers, body = await client.ask("GET", "/echo")
        assert (status, headers["allow"], json.loads(body)["error_code"]) == (405, "POST", 405)
        status, _, body = await client.ask("GET", "/refused")
        assert (status, json.loads(body)) == (
            404,
            {"error_code": 40401, "message": "there is no such thing"},
        )

    ask(talk)


def test_a_bug_is_a_500_that_names_no_internals(caplog: pytest.LogCaptureFixture) -> None:
    async def talk(client: Client) -> None:
        status, _, body = await client.ask("GET", "/failed")
        assert status == 500
        assert b"a bug" not in body
        status, _, _ = await client.ask("GET", "/names/a")
        assert status == 200

    ask(talk)
    assert "/failed failed: this is a bug" in caplog.text


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"nonsense", b"[1,]", b'{"a":NaN}'])
def test_a_body_that_is_not_json(body: bytes) -> None:
    async def talk(client: Client) -> None:
        status, _, answer = await client.ask("POST", "/echo", body)
        assert (status, json.loads(answer)["error_code"]) == (400, 400)

    ask(talk)


def test_deep_json_is_refused_small_or_large() -> None:
    async def talk(client: Client) -> None:
        for depth, status in ((100, 200), (101, 400), (2_000, 400), (400_000, 400)):
            got, _, _ = await client.ask("POST", "/echo", b"[" * depth + b"]" * depth)
            assert got == status, depth
        wide = b"[" + b"[1]," * 100_000 + b"1]"
        assert (await client.ask("POST", "/echo", wide))[0] == 200

    ask(talk, moldau_http_json_depth_max=100)


def test_a_body_too_large_is_refused_however_it_comes() -> None:
    async def talk(client: Client) -> None:
        status, _, body = await client.ask("POST", "/size", bytes(1024))
        assert (status, body) == (200, b"1024")
        status, _, _ = await client.ask("POST", "/size", bytes(1025))
        assert status == 413
        client.send(b"POST /size HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        client.send(b"400\r\n" + bytes(1024) + b"\r\n1\r\nx\r\n0\r\n\r\n")
        assert (await client.response())[0] == 413
        for bomb in (gzip.compress(bytes(50_000_000)), zlib.compress(bytes(2000))):
            encoding = "gzip" if bomb[:2] == b"\x1f\x8b" else "deflate"
            assert (await client.ask("POST", "/size", bomb, Content_Encoding=encoding))[0] == 413
        assert (await client.ask("POST", "/size", bytes(10)))[0] == 200  # and the connection goes on

    ask(talk, moldau_http_body_bytes_max=1024)


def test_compressed_bodies() -> None:
    value = b'{"text":"' + b"Moldau " * 200_000 + b'"}'
    raw = zlib.compressobj(wbits=-15)
    bodies = [
        ("gzip", gzip.compress(value)),
        ("gzip", gzip.compress(value[:1000]) + gzip.compress(value[1000:])),
        ("x-gzip", gzip.compress(value)),
        ("deflate", zlib.compress(value)),
        ("deflate", raw.compress(value) + raw.flush()),
        ("identity", value),
    ]

    async def talk(client: Client) -> None:
        for encoding, body in bodies:
            status, _, answer = await client.ask("POST", "/size", body, Content_Encoding=encoding)
            assert (status, answer) == (200, b"%d" % len(value)), encoding
        for damaged in (b"nonsense", gzip.compress(value)[:-10], gzip.compress(value)[:200] + b"xx"):
            status, _, _ = await client.ask("POST", "/size", damaged, Content_Encoding="gzip")
            assert status == 400
        extra = zlib.compress(value) + b"more"
        assert (await client.ask("POST", "/size", extra, Content_Encoding="deflate"))[0] == 400
        assert (await client.ask("POST", "/size", b"x", Content_Encoding="br"))[0] == 415

    ask(talk)


def test_bodies_of_all_requests_share_a_budget() -> None:
    async def run() -> None:
        async with service(moldau_http_bodies_bytes_max=10_000) as server, client_of(server) as holder:
            holder.send(
                b"POST /size HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\n\r\n" + bytes(8000)
            )
            async with client_of(server) as other:
                await until(lambda: server.app.budget.held_bytes == 8000)
                status, headers, _ = await other.ask("POST", "/size", bytes(4000))
                assert (status, headers["retry-after"]) == (503, "1")
                holder.send(bytes(1000))
                assert (await holder.response())[2] == b"9000"
                assert (await other.ask("POST", "/size", bytes(9000)))[0] == 200

    asyncio.run(run())


def test_a_response_may_begin_before_its_request_ends() -> None:
    async def talk(client: Client) -> None:
        client.send(b"POST /each HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        await client.reader.readuntil(b"\r\n\r\n")
        assert await client.chunk() == b"<a>"
        client.send(b"1\r\nb\r\n")
        assert await client.chunk() == b"<b>"
        client.send(b"0\r\n\r\n")
        assert await client.chunk() == b""

    ask(talk)


def test_a_live_response_is_not_held_back_by_compression() -> None:
    async def talk(client: Client) -> None:
        head = b"POST /each HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n"
        client.send(head + b"Transfer-Encoding: chunked\r\n\r\n")
        client.send(b"1\r\na\r\n")
        assert b"content-encoding" not in await client.reader.readuntil(b"\r\n\r\n")
        assert await client.chunk() == b"<a>"

    ask(talk)


def test_long_lists_and_compression() -> None:
    async def talk(client: Client) -> None:
        _, _, plain = await client.ask("GET", "/many?count=500")
        _, headers, packed = await client.ask("GET", "/many?count=500", Accept_Encoding="gzip")
        assert headers["content-encoding"] == "gzip"
        assert gzip.decompress(packed) == plain
        assert json.loads(plain) == ["x" * 1000] * 500
        assert json.loads((await client.ask("GET", "/many?count=0"))[2]) == []

    ask(talk)


def test_health_and_metrics() -> None:
    async def talk(client: Client) -> None:
        await client.ask("GET", "/refused")
        await client.ask("GET", "/names/one")
        await client.ask("GET", "/names/other")
        assert (await client.ask("GET", "/health"))[0] == 200
        assert json.loads((await client.ask("GET", "/health/live"))[2]) == {"live": True}
        text = (await client.ask("GET", "/metrics"))[2].decode()
        from prometheus_client.parser import text_string_to_metric_families

        families = {each.name: each for each in text_string_to_metric_families(text)}
        counted = {
            (sample.labels["route"], sample.labels["status"]): sample.value
            for sample in families["moldau_http_requests"].samples
        }
        assert counted["/names/{name}", "200"] == 2
        assert counted["/refused", "404"] == 1
        assert families["moldau_http_request_seconds"].type == "histogram"

    ask(talk)


def test_origins_of_scripts_are_named() -> None:
    async def talk(client: Client) -> None:
        _, headers, _ = await client.ask("GET", "/names/a", Origin="https://page.example")
        assert headers["access-control-allow-origin"] == "https://page.example"
        _, headers, _ = await client.ask("GET", "/names/a", Origin="https://other.example")
        assert "access-control-allow-origin" not in headers

    ask(talk, access_control_allow_origin="https://page.example")
