"""Brokers registered in ZooKeeper: what --zookeeper in an old article's command line means.

    HOST1:PORT1,HOST2:PORT2/CHROOT   ->   CHROOT/brokers/ids/<node id>
                                             {"endpoints": ["PLAINTEXT://h:9092"], ...}

The tools then talk to the brokers themselves, as Kafka's have done since 2.2.
"""

from __future__ import annotations

import json
import logging
import shlex
import socket
from typing import Any

from moldau.tools.kafka.lines.options import Given
from moldau.tools.kafka.problems import ToolError

SECONDS = 4.0
_PORT = 2181


def brokers_of(connect: str, given: Given) -> list[str]:
    """Return the addresses (HOST:PORT) of the registered brokers. ToolError with what to type if there is no
    ZooKeeper, or no broker in it.
    """
    hosts, slash, path = connect.partition("/")
    root = f"/{path.strip('/')}" if slash and path.strip("/") else ""
    _require_listener(hosts, given)
    found = [address for each in _registrations(hosts, root, given) if (address := _address(each))]
    if not found:
        raise ToolError(f"no broker is registered at {hosts} in {root}/brokers/ids\n{instead(given)}")
    return found


def instead(given: Given) -> str:
    """Return the same command line with --bootstrap-server."""
    words: list[str] = []
    skip = False
    for word in given.typed:
        if skip:
            skip = False
        elif word in ("--zookeeper", "-zookeeper", "-z"):
            skip = True
        elif not word.startswith(("--zookeeper=", "-z=")):
            words.append(word)
    line = shlex.join(["--bootstrap-server", "localhost:9092", *words])
    return f"Kafka's tools ask a broker, not ZooKeeper. Type: {given.parser.tool} {line}"


def _require_listener(hosts: str, given: Given) -> None:
    """Raise ToolError if none of the hosts accepts a connection; kazoo would try again and again."""
    parts = hosts.split(",")
    reason = ""
    for part in parts:
        host, _, port = part.strip().partition(":")
        try:
            socket.create_connection((host, int(port or _PORT)), timeout=SECONDS / len(parts)).close()
            return
        except (OSError, ValueError) as refusal:
            reason = str(refusal)
    raise ToolError(f"no ZooKeeper answers at {hosts}: {reason}\n{instead(given)}")


def _registrations(hosts: str, root: str, given: Given) -> list[dict[str, Any]]:
    try:
        from kazoo.client import KazooClient
        from kazoo.exceptions import KazooException, NoNodeError
        from kazoo.handlers.threading import KazooTimeoutError
    except ImportError:
        raise ToolError(f"--zookeeper needs kazoo: pip install 'moldau[cluster]'\n{instead(given)}") from None
    client = KazooClient(hosts=hosts, timeout=SECONDS, read_only=True, logger=quiet())
    try:
        client.start(timeout=SECONDS)
        ids, timely = f"{root}/brokers/ids", Timely(client)
        found = [json.loads(timely.get(f"{ids}/{each}")[0]) for each in sorted(timely.get_children(ids))]
        return [each for each in found if isinstance(each, dict)]
    except NoNodeError:
        return []
    except (KazooException, KazooTimeoutError, ValueError) as problem:
        why = str(problem) or type(problem).__name__
        raise ToolError(f"ZooKeeper at {hosts} cannot be read: {why}\n{instead(given)}") from None
    finally:
        client.stop()
        client.close()


class Timely:
    """A client's calls with a time limit: without one they wait for a server that is gone."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, f"{name}_async")
        return lambda *words, **more: call(*words, **more).get(timeout=SECONDS)


def quiet() -> logging.Logger:
    """Return a logger for kazoo that says nothing: a lost connection is told by the exception."""
    logger = logging.getLogger("moldau.cli.kafka.zookeeper")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


def _address(registration: dict[str, Any]) -> str:
    """Return the plaintext listener, else the first."""
    endpoints = [str(each) for each in registration.get("endpoints", [])]
    plain = [each for each in endpoints if each.upper().startswith("PLAINTEXT://")]
    for each in [*plain, *endpoints]:
        return each.partition("://")[2]
    host, port = registration.get("host"), registration.get("port")
    return f"{host}:{port}" if host and isinstance(port, int) and port > 0 else ""
