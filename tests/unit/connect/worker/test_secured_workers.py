"""Two workers of a group behind TLS and logins: requests are sent on with the login, and workers trust each
other by signatures alone."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from moldau.services.connect.running import serve_connect
from moldau.services.connect.settings import WorkerConfiguration, worker_configuration
from moldau.testing import Broker
from moldau.testing.authority import Authority

_STRINGS = "org.apache.kafka.connect.storage.StringConverter"
_ALICE, _BOB = ("alice", "wonder"), ("bob", "built")
_COUNT = 4


def configuration(broker: Broker, folder: Path, authority: Authority) -> WorkerConfiguration:
    """Of a worker: HTTPS, logins, rights."""
    (folder / "users").write_text("alice: wonder\nbob: built\n")
    (folder / "rights").write_text("alice all *\nbob read connector:*\n")
    names = ("config", "offset", "status")
    return worker_configuration(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "secured",
            "key.converter": _STRINGS,
            "value.converter": _STRINGS,
            **{f"{each}.storage.topic": f"secured-{each}" for each in names},
            **{f"{each}.storage.replication.factor": "1" for each in names},
            "offset.storage.partitions": "1",
            "status.storage.partitions": "1",
            "heartbeat.interval.ms": "300",
            "listeners": "https://localhost:0",
            "listeners.https.ssl.keystore.type": "PEM",
            "listeners.https.ssl.keystore.location": str(authority.issue("worker").store),
            "listeners.https.ssl.truststore.type": "PEM",
            "listeners.https.ssl.truststore.location": str(authority.certificate),
            "authentication.method": "BASIC",
            "moldau.http.users.file": str(folder / "users"),
            "moldau.http.rights.file": str(folder / "rights"),
        }
    )


async def until(true: Callable[[], Any], seconds: float = 90.0) -> None:
    """Return when it is true."""
    async with asyncio.timeout(seconds):
        while True:
            found = true()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return
            await asyncio.sleep(0.05)


def test_workers_behind_tls_and_logins(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    (tmp_path / "in").write_text("a line\n")
    verify = ssl.create_default_context(cafile=str(authority.certificate))

    async def run(broker: Broker) -> None:
        settings = configuration(broker, tmp_path, authority)
        async with (
            serve_connect(settings) as one,
            serve_connect(settings) as other,
            httpx.AsyncClient(verify=verify, timeout=90) as client,
        ):
            workers = [one.worker, other.worker]
            await until(lambda: any(each.membership.is_leader for each in workers))
            await until(lambda: not any(each.membership.is_rebalancing for each in workers))
            follower = other if one.worker.membership.is_leader else one
            connectors = f"{follower.url}/connectors"

            async def put(name: str, login: tuple[str, str] | None) -> int:
                config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in"), "topic": name}
                return (await client.put(f"{connectors}/{name}/config", json=config, auth=login)).status_code

            assert await put("c0", None) == 401
            assert await put("c0", _BOB) == 403
            for number in range(_COUNT):

                async def is_put(name: str = f"c{number}") -> bool:
                    return await put(name, _ALICE) in (200, 201)  # 409: work is distributed anew

                await until(is_put)

            async def runs() -> bool:
                found = (await client.get(f"{connectors}?expand=status", auth=_BOB)).json()
                states = [
                    part["state"]
                    for each in found.values()
                    for part in (each["status"]["connector"], *each["status"]["tasks"])
                ]
                return states == ["RUNNING"] * 2 * _COUNT

            await until(runs)
            places = [{each.connector for each in worker.membership.held()} for worker in workers]
            assert all(places)  # the follower's connectors had their tasks written, and fenced, by the leader
            for number in range(_COUNT):
                for who, wanted in ((_BOB, 403), (_ALICE, 204)):
                    path = f"{connectors}/c{number}/tasks/0/restart"
                    answer = await client.post(path, auth=who)
                    assert answer.status_code == wanted, answer.text
            for path, method in (("tasks", "POST"), ("fence", "PUT")):
                internal = f"{connectors}/c0/{path}"
                unsigned = await client.request(method, internal, json=[], auth=_ALICE)
                assert unsigned.status_code in (400, 403)
                forged = {
                    "X-Connect-Authorization": "bm8=",
                    "X-Connect-Request-Signature-Algorithm": "HmacSHA256",
                }
                answer = await client.request(method, internal, json=[], headers=forged)
                assert answer.status_code == 403
            health = await client.get(f"{follower.url}/health", auth=_BOB)
            assert health.json()["status"] == "healthy"

    with Broker() as broker:
        asyncio.run(run(broker))
