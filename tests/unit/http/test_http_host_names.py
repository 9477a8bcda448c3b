"""A service on loopback without a login answers to the names of this machine only."""

import asyncio
import json
import socket

import pytest
from http_service import client_of, service


def status_for(host: str, **settings: object) -> tuple[int, bytes]:
    async def main() -> tuple[int, bytes]:
        async with service(**settings) as server, client_of(server) as client:
            client.send(f"GET /names/a HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            status, _, body = await client.response()
            return status, body

    return asyncio.run(main())


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:8081", "a.localhost:80", "127.0.0.1:1", "127.9.9.9", "[::1]:8081", ""],
)
def test_names_of_loopback(host: str) -> None:
    assert status_for(host)[0] == 200


def test_the_machines_own_name() -> None:
    assert status_for(f"{socket.gethostname()}:8081")[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8081", "localhost.evil.example", "10.0.0.1"])
def test_a_page_that_leads_its_own_name_here_is_refused(host: str) -> None:
    status, body = status_for(host)
    assert status == 403
    assert "moldau.http.host.names" in json.loads(body)["message"]


def test_names_that_are_set() -> None:
    assert status_for("registry.example:443", moldau_http_host_names=("registry.example",))[0] == 200
    assert status_for("any.example", moldau_http_host_names=("*",))[0] == 200
