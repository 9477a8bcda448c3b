"""`moldau cluster` as a user runs it: started, one broker killed, started again, stopped, deleted."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import Permissions

from moldau.broker.metadata.zookeeper.login import log_in_by
from moldau.broker.metadata.zookeeper.options import SaslLogin
from moldau.ensemble import free_ports

pytestmark = [pytest.mark.xdist_group("cluster"), pytest.mark.timeout(600)]
WITHIN_S = 60.0


def run(*words: str, code: int | None = 0) -> str:
    command = [sys.executable, "-m", "moldau", "cluster", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert code is None or done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def at(tmp_path: Path) -> Iterator[list[str]]:
    folder = str(tmp_path / "cluster")
    yield ["--data", folder]
    run("purge", "--yes", "--data", folder, code=None)


def ports() -> list[str]:
    """Three bases with room for three servers each."""
    bases = (free_ports(1)[0] // 10 * 10 for _ in range(100))
    chosen: list[int] = []
    for base in bases:
        if all(abs(base - other) > 3 for other in chosen) and all(_free(base + one) for one in range(3)):
            chosen.append(base)
        if len(chosen) == 3:
            break
    names = ("--port", "--http-port", "--zookeeper-port")
    return [word for name, port in zip(names, chosen, strict=True) for word in (name, str(port))]


def _free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def status(at: list[str]) -> dict[str, Any]:
    return dict(json.loads(run("status", "--json", *at, code=None)))


def wait_for(at: list[str], wanted: str) -> dict[str, Any]:
    """The first picture with this status; a busy machine may make a broker look ill for a moment."""
    deadline = time.monotonic() + WITHIN_S
    while (found := status(at))["status"] != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(0.2)
    return found


def states(found: dict[str, Any]) -> dict[str, str]:
    return {f"{each['kind']} {each['id']}": each["state"] for each in found["servers"]}


def test_a_cluster_is_started_repaired_stopped_and_deleted(at: list[str], tmp_path: Path) -> None:
    begun = json.loads(run("start", "--json", *ports(), *at))
    assert begun["registered_brokers"] == [1, 2, 3]
    wait_for(at, "ok")
    assert len(begun["started"]) == 4
    assert json.loads(run("start", "--json", *at))["started"] == []
    victim = next(each for each in begun["servers"] if each["kind"] == "broker" and each["id"] == 2)
    os.kill(victim["pid"], signal.SIGKILL)
    assert states(wait_for(at, "degraded"))["broker 2"] == "gone"
    assert json.loads(run("start", "--json", *at))["started"] == ["broker 2"]
    assert "the cluster has brokers 1 to 3" in run("stop", "--broker", "4", *at, code=2)
    assert json.loads(run("stop", "--json", "--broker", "3", *at))["stopped"] == ["broker 3"]
    assert states(status(at))["broker 3"] == "stopped"
    assert set(json.loads(run("stop", "--json", *at))["stopped"]) == {"broker 1", "broker 2", "ZooKeeper"}
    assert "nothing ran" in run("stop", *at)
    run("purge", "--yes", *at)
    assert not (tmp_path / "cluster").exists()
    assert "there is no cluster in" in run("status", *at, code=1)


def test_a_port_in_use_is_said_and_nothing_is_left(at: list[str]) -> None:
    words = ports()
    with socket.create_server(("127.0.0.1", int(words[1]) + 1)):
        said = run("start", *words, *at, code=1)
    assert f"port {int(words[1]) + 1}, which broker 2 needs, is in use" in said
    assert "--port" in said
    assert set(states(status(at)).values()) == {"stopped"}


def _require_closed_zookeeper(folder: Path) -> None:
    """Who does not log in gets no session; who does finds no node that others may change, and none with
    SCRAM credentials that others may read.
    """
    connect = next(
        line.partition("=")[2]
        for line in (folder / "broker-1/server.properties").read_text().splitlines()
        if line.startswith("zookeeper.connect=")
    )
    stranger = KazooClient(connect, timeout=5)
    with pytest.raises((KazooException, KazooTimeoutError)):
        _look(stranger)
    stranger.stop()
    stranger.close()
    words = dict(line.split("=", 1) for line in (folder / "security/secrets.properties").read_text().split())
    user = KazooClient(connect, timeout=20)
    log_in_by(
        SaslLogin("zookeeper", words["zookeeper"]), user._connection, accepted=_nothing, refused=_nothing
    )
    user.start(WITHIN_S)
    try:
        nodes = list(_nodes(user, "/"))
        assert any(b"SCRAM" in data or b"scram" in data for _, data, _ in nodes)
        for path, data, acls in nodes:
            for each in acls:
                if each.id.scheme == "world":
                    assert each.perms == Permissions.READ, path
                    assert b"scram" not in data.lower(), path
    finally:
        user.stop()
        user.close()


def _nothing(*said: str) -> None: ...


def _look(client: Any) -> None:
    client.start(5)
    client.get_children("/")


def _nodes(client: Any, path: str) -> Iterator[tuple[str, bytes, list[Any]]]:
    """All nodes but ZooKeeper's own and the root, which no client makes."""
    for name in client.get_children(path):
        if path == "/" and name == "zookeeper":
            continue
        below = f"{path.rstrip('/')}/{name}"
        yield below, client.get(below)[0], client.get_acls(below)[0]
        yield from _nodes(client, below)


def test_a_secured_cluster_in_one_command(at: list[str], tmp_path: Path) -> None:
    """TLS, logins and ACLs; the settings that it writes serve every command, and no secret is told."""
    folder = tmp_path / "cluster"
    said = run("start", "--secure", "--brokers", "1", *ports(), *at)
    file = folder / "client.properties"
    assert f"export MOLDAU_COMMAND_CONFIG={file}" in said
    secrets = [
        line.partition("=")[2] for line in (folder / "security/secrets.properties").read_text().split()
    ]
    assert len(secrets) == 3
    for each in (folder, folder / "zookeeper-1", folder / "security"):
        assert each.stat().st_mode & 0o777 == 0o700, each
    private = (
        "zookeeper-1/jaas.conf",
        "client.properties",
        "security/secrets.properties",
        "security/broker.pem",
        "security/ca-key.pem",
    )
    for each in private:
        assert (folder / each).stat().st_mode & 0o777 == 0o600, each

    def moldau(*words: str, code: int = 0) -> str:
        command = [sys.executable, "-m", "moldau", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    settings = ("--command-config", str(file))
    moldau("topics", "create", "orders", *settings)
    assert "orders" in moldau("topics", "list", *settings)
    assert "no transactional ids" in moldau("transactions", "list", *settings)  # not by librdkafka
    healthy = moldau("doctor", *settings)
    assert "admin is logged in by SCRAM-SHA-512" in healthy
    refused = moldau("topics", "list", *settings, "-X", "sasl.password=wrong", code=1)
    assert "refused the user admin" in refused
    _require_closed_zookeeper(folder)
    run("stop", *at)
    again = run("start", *at)
    assert "orders" in moldau("topics", "list", *settings)
    told = said + again + healthy + refused + (folder / "broker-1/broker.log").read_text()
    told += (folder / "broker-1/server.properties").read_text() + (folder / "cluster.json").read_text()
    assert not any(secret in told for secret in secrets)
    run("purge", "--yes", *at)
    assert not folder.exists()
