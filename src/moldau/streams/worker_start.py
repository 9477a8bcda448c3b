"""Spark's Python processes that no daemon forks: connected to Java first, and quiet at the end.

Spark starts such a process for each streaming source, and waits ten seconds for it to connect; Spark has no
setting for that. The process first imports Spark, pandas and pyarrow: one second on an idle machine, more
than ten on a busy one, and the query fails with "Python worker failed to connect back". So here the
connection comes first and the imports after it; for what comes then, Spark waits as long as it takes.

When a query stops, Spark closes the connection, and its runner ends with a traceback of a BrokenPipeError:
it wants to report that the connection is closed, over that connection. Nothing is wrong, so nothing is said.

Spark's Python (interpreter.py) runs `-m moldau.streams.worker_start MODULE` where Spark asks for `-m MODULE`.
Nothing slow may be imported before the connection is there.
"""

from __future__ import annotations

import os
import runpy
import socket
import struct
import sys
from collections.abc import Mapping
from typing import IO, Any

UNIX_SOCKET, PORT, SECRET = (f"PYTHON_WORKER_FACTORY_{name}" for name in ("SOCK_PATH", "PORT", "SECRET"))
CONNECT_SECONDS = 15.0
BUFFER_BYTES = 65_536

Connected = tuple[Any, socket.socket]


def connected(environment: Mapping[str, str]) -> Connected | None:
    """The connection that Java waits for, as Spark's own function gives it; None if it waits for none."""
    path, port = environment.get(UNIX_SOCKET), environment.get(PORT)
    if path is None and port is None:
        return None
    if path is not None:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(CONNECT_SECONDS)
        connection.connect(path)
    else:
        host = "::1" if environment.get("SPARK_PREFER_IPV6", "").lower() == "true" else "127.0.0.1"
        connection = socket.create_connection((host, int(port or 0)), timeout=CONNECT_SECONDS)
    stream: Any = connection.makefile("rwb", int(environment.get("SPARK_BUFFER_SIZE", BUFFER_BYTES)))
    if path is None:
        _prove(stream, environment.get(SECRET, ""))
    connection.settimeout(None)  # whoever is slow now is slow, and not gone
    return stream, connection


def _prove(stream: IO[bytes], secret: str) -> None:
    """Show the secret, each text with its length before it, and wait for "ok"."""
    shown = secret.encode()
    stream.write(struct.pack("!i", len(shown)) + shown)
    stream.flush()
    length = struct.unpack("!i", stream.read(4))[0]
    if stream.read(length) != b"ok":
        raise ConnectionError("Java did not accept the secret that it had given")


def main(module: str) -> None:
    """Run Spark's module as it would be run by itself."""
    connection = connected(os.environ)
    if connection is not None:
        from pyspark import worker_util

        def already_connected(*_: Any) -> Connected:
            return connection

        vars(worker_util)["local_connect_and_auth"] = already_connected
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except (BrokenPipeError, ConnectionResetError):
        os._exit(1)  # and not sys.exit: what is buffered for Java can go nowhere


if __name__ == "__main__":
    main(sys.argv.pop(1))
