"""zookeeper-shell HOST:PORT [COMMAND ...]: looks into ZooKeeper and changes it, one command or many.

    ls [-s] [-R] path    get [-s] path    stat path    create [-s] [-e] path [data]    set path data
    delete path          deleteall path   help         quit (or the end of the input)

The lines are those of ZooKeeper's own shell. Who changes /brokers or /controller by hand changes the cluster.
"""

from __future__ import annotations

import shlex
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from moldau.tools.kafka.problems import FAILED, CommandLineError, ToolError
from moldau.tools.kafka.queries.zookeeper_lookup import Timely, quiet

USAGE = "USAGE: zookeeper-shell.sh zookeeper_host:port[/path] [args...]"
SECONDS = 4.0
COMMANDS = {
    "ls": "[-s] [-R] path",
    "get": "[-s] path",
    "stat": "path",
    "create": "[-s] [-e] path [data]",
    "set": "path data",
    "delete": "path",
    "deleteall": "path",
    "help": "",
    "quit": "",
}
_OLD = {"ls2": ("ls", "-s"), "rmr": ("deleteall",)}


class Refused(Exception):
    """A command that ZooKeeper or the shell refuses; the text is the line to print."""


def main(words: Sequence[str]) -> int:
    """Run one command, or all that standard input holds. Returns the exit code."""
    if not words or words[0] in ("--help", "-h", "-help"):
        raise CommandLineError(USAGE)
    connect, *command = words
    if connect == "-server" and command:
        connect, *command = command
    client = _connect(connect)
    try:
        print(f"Connecting to {connect}")
        if command:
            print("\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null")
            return run_words(Timely(client), command)
        print("Welcome to ZooKeeper!\nJLine support is disabled\n")
        print("WATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null", flush=True)
        return _interact(Timely(client))
    finally:
        client.stop()
        client.close()


def _connect(connect: str) -> Any:
    try:
        from kazoo.client import KazooClient
        from kazoo.handlers.threading import KazooTimeoutError
    except ImportError:
        raise ToolError("zookeeper-shell needs kazoo: pip install 'moldau[cluster]'") from None
    reason = ""
    hosts = connect.partition("/")[0].split(",")
    for each in hosts:
        host, _, port = each.strip().partition(":")
        try:
            socket.create_connection((host, int(port or 2181)), timeout=SECONDS / len(hosts)).close()
            break
        except (OSError, ValueError) as problem:
            reason = str(problem)
    else:
        raise ToolError(
            f"no ZooKeeper answers at {connect}: {reason}\n"
            "Start one with: zookeeper-server-start.sh config/zookeeper.properties"
        )
    client = KazooClient(hosts=connect, timeout=10.0, logger=quiet())
    try:
        client.start(timeout=SECONDS)
    except KazooTimeoutError:
        client.stop()
        raise ToolError(f"ZooKeeper at {connect} does not serve: it has perhaps no majority") from None
    return client


def _interact(client: Any) -> int:
    asks = sys.stdin.isatty()
    while True:
        if asks:
            print("[zk] ", end="", flush=True)
        line = sys.stdin.readline()
        if not line:
            return 0
        try:
            words = shlex.split(line)
        except ValueError as problem:
            print(f"Command failed: {problem}")
            continue
        if words[:1] == ["quit"]:
            return 0
        if words:
            run_words(client, words)
            sys.stdout.flush()


def run_words(client: Any, words: Sequence[str]) -> int:
    """Run one command; a refusal is printed, and its code is 1."""
    from kazoo import exceptions
    from kazoo.handlers.threading import KazooTimeoutError

    name, *rest = [*_OLD.get(words[0], (words[0],)), *words[1:]]
    path = next((word for word in rest if word.startswith("/")), "")
    try:
        _commands()[name](client, *_parted(name, rest))
    except KeyError:
        print(f"Command not found: Command not found {name}\n{_help()}", file=sys.stderr)
        return FAILED
    except Refused as problem:
        print(problem, file=sys.stderr)
        return FAILED
    except exceptions.NoNodeError:
        print(f"Node does not exist: {path}", file=sys.stderr)
        return FAILED
    except exceptions.NodeExistsError:
        print(f"Node already exists: {path}", file=sys.stderr)
        return FAILED
    except exceptions.NotEmptyError:
        print(f"Node not empty: {path}", file=sys.stderr)
        return FAILED
    except (exceptions.ConnectionLoss, exceptions.SessionExpiredError, KazooTimeoutError):
        print(f"ZooKeeper does not answer: {name} {path}", file=sys.stderr)
        return FAILED
    except (exceptions.KazooException, ValueError) as problem:
        print(f"{type(problem).__name__}: {problem or path}", file=sys.stderr)
        return FAILED
    return 0


def _parted(name: str, words: Sequence[str]) -> tuple[set[str], list[str]]:
    """Flags and operands. Refused if they are not the command's."""
    shape = COMMANDS.get(name, "")
    flags = {word for word in words if word in ("-s", "-R", "-e") and f"[{word}]" in shape}
    operands = [word for word in words if word not in flags]
    needed = sum(1 for part in shape.split() if not part.startswith("["))
    possible = sum(1 for part in shape.split() if not part.startswith("[-"))
    if name in COMMANDS and not needed <= len(operands) <= possible:
        raise Refused(f"Usage: {name} {shape}")
    if operands and not operands[0].startswith("/"):
        raise Refused(f"Path must start with / character: {operands[0]}")
    return flags, operands


def _commands() -> dict[str, Callable[[Any, set[str], list[str]], None]]:
    return {
        "ls": _ls,
        "get": _get,
        "stat": lambda client, flags, words: _print_stat(client.get(words[0])[1]),
        "create": _create,
        "set": lambda client, flags, words: client.set(words[0], words[1].encode()),
        "delete": lambda client, flags, words: client.delete(words[0]),
        "deleteall": lambda client, flags, words: _delete_all(client, words[0]),
        "help": lambda client, flags, words: print(_help()),
    }


def _ls(client: Any, flags: set[str], words: list[str]) -> None:
    path = words[0]
    if "-R" in flags:
        _walk(client, path)
        return
    children, found = client.get_children(path, include_data=True)
    print(f"[{', '.join(sorted(children))}]")
    if "-s" in flags:
        _print_stat(found)


def _walk(client: Any, path: str) -> None:
    print(path)
    for each in sorted(client.get_children(path)):
        _walk(client, f"{path.rstrip('/')}/{each}")


def _delete_all(client: Any, path: str) -> None:
    for each in client.get_children(path):
        _delete_all(client, f"{path.rstrip('/')}/{each}")
    client.delete(path)


def _get(client: Any, flags: set[str], words: list[str]) -> None:
    data, found = client.get(words[0])
    print((data or b"null").decode(errors="replace"))
    if "-s" in flags:
        _print_stat(found)


def _create(client: Any, flags: set[str], words: list[str]) -> None:
    data = words[1].encode() if len(words) > 1 else b""
    made = client.create(words[0], data, ephemeral="-e" in flags, sequence="-s" in flags)
    print(f"Created {made}")


def _print_stat(found: Any) -> None:
    moment = "%a %b %d %H:%M:%S UTC %Y"
    print(f"cZxid = {found.czxid:#x}\nctime = {time.strftime(moment, time.gmtime(found.ctime / 1000))}")
    print(f"mZxid = {found.mzxid:#x}\nmtime = {time.strftime(moment, time.gmtime(found.mtime / 1000))}")
    print(f"pZxid = {found.pzxid:#x}\ncversion = {found.cversion}\ndataVersion = {found.version}")
    print(f"aclVersion = {found.aversion}\nephemeralOwner = {found.ephemeralOwner:#x}")
    print(f"dataLength = {found.dataLength}\nnumChildren = {found.numChildren}")


def _help() -> str:
    rows = [f"\t{name} {shape}".rstrip() for name, shape in COMMANDS.items()]
    return "\n".join(["ZooKeeper -server host:port command args", *rows])
