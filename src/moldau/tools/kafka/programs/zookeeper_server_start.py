"""zookeeper-server-start [-daemon] zookeeper.properties: a ZooKeeper server of its own Java classes.

The file is ZooKeeper's; it reads it itself. Java and the jars are those that moldau/ensemble finds.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from moldau.tools.kafka.java.properties import read_properties
from moldau.tools.kafka.lines.script_words import script_words
from moldau.tools.kafka.problems import CommandLineError, ToolError

TOOL = "zookeeper-server-start"
USAGE = "USAGE: zookeeper-server-start.sh [-daemon] zookeeper.properties"
MARK = "-Dmoldau.tool=zookeeper-server-start"
HEAP = "-Xmx512M"


def main(words: Sequence[str]) -> int:
    """Become a ZooKeeper server, or start one in the background. Returns only in the second case."""
    (file,), _, background = script_words(words, USAGE)
    if not Path(file).is_file():
        raise CommandLineError(f"{file} is not there: name ZooKeeper's settings", USAGE)
    settings = read_properties(file)
    port = _port(file, settings)
    if not settings.get("dataDir"):
        raise ToolError(f"{file} has no dataDir: add dataDir=FOLDER, where ZooKeeper keeps its data")
    command = _command(file)
    host = settings.get("clientPortAddress", "").strip()
    host = "127.0.0.1" if host in ("", "0.0.0.0", "::") else host
    if _listens(host, port):
        raise ToolError(
            f"port {port} is in use: another ZooKeeper may run on it; {file} has clientPort={port}"
        )
    if background:
        from moldau.tools.kafka.homes.processes import in_background, log_folder

        output = log_folder(file) / "zookeeper.out"
        in_background(TOOL, [file], output, lambda said: _listens(host, port))
        return 0
    print(f"ZooKeeper: clients connect to port {port}; its data is in {settings['dataDir']}; Ctrl-C ends it")
    sys.stdout.flush()
    os.execv(command[0], command)
    return 1


def _port(file: str, settings: dict[str, str]) -> int:
    text = settings.get("clientPort", "2181").strip()
    if not (text.isascii() and text.isdigit()) or not 0 < int(text) < 65536:
        raise ToolError(f"{file} has clientPort={text}: a port is a number from 1 to 65535")
    return int(text)


def _command(file: str) -> list[str]:
    from moldau.ensemble.installation import EnsembleError, installation
    from moldau.ensemble.server import JAVA_OPTIONS, MAIN_CLASS

    try:
        found = installation()
    except EnsembleError as problem:
        raise ToolError(str(problem)) from None
    return [
        str(found.java),
        HEAP,
        *JAVA_OPTIONS,
        MARK,
        "-cp",
        found.class_path,
        MAIN_CLASS,
        os.path.abspath(file),
    ]


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=2).close()
    except OSError:
        return False
    return True
