"""The agent as a program: its parts made, wired, started in order and stopped in reverse.

    listeners (socket, HTTP, UDP) ──> Intake ──> lanes' spools ──> Delivery (thread) ──> Kafka

One event loop; the disk has a thread, the delivery another. The folder holds `agent.json` (the agent's id),
`lock`, the socket, and `topics/TOPIC/` with a spool each.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import socket
import stat
import time
import uuid

from moldau.common.core.files import OsFiles, write_atomically
from moldau.kit.agent.connections import Connections
from moldau.kit.agent.counters import Counters
from moldau.kit.agent.datagrams import Datagrams
from moldau.kit.agent.delivery import Delivery
from moldau.kit.agent.http_listener import HttpConnection
from moldau.kit.agent.intake import Intake, Origin, Outcome
from moldau.kit.agent.line_listener import LineConnection
from moldau.kit.agent.message import Message
from moldau.kit.agent.report import Report
from moldau.kit.agent.settings import AgentSettings

log = logging.getLogger("moldau.agent")

OFF = "off"


class AgentError(Exception):
    """The agent cannot start, or had to end; the text says why and what to do."""


class Agent:
    """One agent. `start`, then `wait_ended`, then `stop`."""

    def __init__(self, settings: AgentSettings) -> None:
        self.settings = settings
        self.socket_path = settings.socket or settings.folder / "agent.sock"
        self.http_address = ""
        self.udp_address = ""
        self.counters = Counters(settings.topics_max + 1)
        self._lock_fd = -1
        self._ended: asyncio.Future[str] | None = None
        self._servers: list[asyncio.AbstractServer] = []
        self._datagrams: asyncio.DatagramTransport | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.intake: Intake
        self.delivery: Delivery
        self.connections: Connections
        self.report: Report

    async def start(self) -> None:
        """Open the folder, begin to deliver and to listen. Raises AgentError, SpoolError, OSError."""
        settings = self.settings
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        settings.folder.mkdir(parents=True, exist_ok=True)
        self._take_lock()
        agent_id = self._identity()
        self.intake = Intake(settings, self.counters, self._wake_delivery)
        self.intake.open_lanes()
        self.connections = Connections(settings, self.intake, self.counters)
        self.delivery = Delivery(
            settings,
            agent_id,
            lambda: list(self.intake.lanes.values()),
            self.counters,
            lambda why: self._end(loop, why),
        )
        self.report = Report(self.intake, self.delivery, self.counters, self.connections)
        self.connections.status = self.report.status
        await self._listen(loop)
        self.delivery.start()
        self._tasks = [
            loop.create_task(self.connections.close_stalled()),
            loop.create_task(self._report_discards()),
        ]

    def _wake_delivery(self) -> None:
        self.delivery.wake()

    def _end(self, loop: asyncio.AbstractEventLoop, why: str) -> None:
        def note() -> None:
            if self._ended is not None and not self._ended.done():
                self._ended.set_result(why)

        with contextlib.suppress(RuntimeError):  # the loop is closed: the agent ends already
            loop.call_soon_threadsafe(note)

    async def wait_ended(self) -> str:
        """Return when the agent cannot go on, with the reason."""
        assert self._ended is not None
        return await asyncio.shield(self._ended)

    def _take_lock(self) -> None:
        files = OsFiles()
        self._lock_fd = files.open(str(self.settings.folder / "lock"), create=True)
        if not files.lock(self._lock_fd):
            files.close(self._lock_fd)
            self._lock_fd = -1
            raise AgentError(
                f"an agent runs in {self.settings.folder} already: see `moldau agent status`, "
                "or name another folder with --data"
            )

    def _identity(self) -> str:
        """The agent's id: what was asked for, else what the folder has, else a new one, which is kept."""
        path = self.settings.folder / "agent.json"
        kept = ""
        if path.exists():
            try:
                kept = str(json.loads(path.read_text())["id"])
            except (ValueError, KeyError, TypeError):
                raise AgentError(
                    f'{path} is damaged: write {{"id": "..."}} with the agent\'s id into it'
                ) from None
        agent_id = self.settings.agent_id or kept or uuid.uuid4().hex[:12]
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,100}", agent_id):
            raise AgentError(f"{agent_id!r} is no id: use letters, digits, . _ -")
        if agent_id != kept:
            if kept and (self.settings.folder / "topics").exists():
                raise AgentError(
                    f"{self.settings.folder} belongs to the agent {kept!r}, and its positions in Kafka "
                    "are kept under that id: leave --id out, or name an empty folder"
                )
            write_atomically(OsFiles(), os.path.abspath(path), json.dumps({"id": agent_id}).encode() + b"\n")
        return agent_id

    # -- listeners -----------------------------------------------------------------------------------

    async def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        self._servers.append(
            await loop.create_unix_server(
                lambda: LineConnection(self.connections), sock=self._bind_socket(), backlog=1024
            )
        )
        if self.settings.http is not None:
            host, port = self.settings.http
            pages = self.report.pages()
            server = await loop.create_server(
                lambda: HttpConnection(self.connections, pages), host, port, backlog=1024
            )
            self._servers.append(server)
            self.http_address = _address(server.sockets[0])
        if self.settings.udp is not None:
            transport, _ = await loop.create_datagram_endpoint(
                lambda: Datagrams(self.intake, self.counters), local_addr=self.settings.udp
            )
            self._datagrams = transport
            self.udp_address = _address(transport.get_extra_info("socket"))

    def _bind_socket(self) -> socket.socket:
        """Bind the Unix socket with its permissions. A socket that a killed agent left is replaced."""
        path = self.socket_path
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISSOCK(os.stat(path).st_mode):
                raise AgentError(f"{path} is no socket: name another with --socket")
            with socket.socket(socket.AF_UNIX) as probe:
                try:
                    probe.connect(str(path))
                except ConnectionRefusedError:
                    os.unlink(path)
                else:
                    raise AgentError(f"another program listens on {path}: name another with --socket")
        bound = socket.socket(socket.AF_UNIX)
        try:
            old = os.umask(0o777)
            try:
                bound.bind(str(path))
            finally:
                os.umask(old)
            os.chmod(path, self.settings.socket_mode)
        except OSError as problem:
            bound.close()
            raise AgentError(f"{path}: {problem.strerror or problem}: name another with --socket") from None
        return bound

    # -- discards ------------------------------------------------------------------------------------

    async def _report_discards(self) -> None:
        while True:
            await asyncio.sleep(self.settings.discards_seconds)
            self._send_discards()

    def _send_discards(self) -> None:
        """Log what was discarded since the last report, and send it as records to the topic of reports."""
        now_ms = time.time_ns() // 1_000_000
        for report in self.counters.take_unreported():
            log.warning("discarded: %(count)d messages of topic %(topic)r: %(reason)s", report)
            topic = self.settings.discards_topic
            if topic and topic != OFF and report["topic"] != topic:
                body = {**report, "agent": self.delivery.transactional_id, "time_ms": now_ms}
                message = Message(
                    topic, json.dumps(body).encode(), str(report["topic"]).encode(), timestamp_ms=now_ms
                )
                self.intake.submit(message, _ignore, Origin())

    # -- the end -------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Take nothing more, answer what was taken, deliver what can be delivered in time, save, unlock."""
        for task in self._tasks:
            task.cancel()
        for server in self._servers:
            server.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.socket_path)
        if self._datagrams is not None:
            self._datagrams.close()
        self._send_discards()
        await self.intake.drain()
        self.connections.close_all("the agent stops")
        await asyncio.sleep(0)  # the last answers leave
        seconds = self.settings.stop_seconds
        self.delivery.stop(seconds)
        await asyncio.to_thread(self.delivery.join, seconds + 20)
        self.intake.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1


def _ignore(outcome: Outcome) -> None:
    """A report that finds no room is in the log and in the metrics all the same."""


def _address(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
