"""The agent's way in, with no network: requests that are cut off, answers that fail, small spools."""

import asyncio
import contextlib
import os
import socket

import pytest

from moldau.kit.agent.connections import Connections
from moldau.kit.agent.counters import Counters
from moldau.kit.agent.http_listener import HttpConnection
from moldau.kit.agent.intake import Intake, Origin
from moldau.kit.agent.message import BadMessage, Message, parse
from moldau.kit.agent.settings import AgentSettings, Quota
from moldau.kit.agent_client import AgentClient


class Transport:
    """Keeps what is written."""

    def __init__(self):
        self.written = b""
        self.closed = False

    def write(self, data):
        self.written += data

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass


def in_an_agent(folder, work, **settings):
    """Run `work(intake, connections)` in an event loop; what was taken is on the disk when it returns."""

    async def main():
        made = AgentSettings(folder, **settings)
        counters = Counters(10)
        intake = Intake(made, counters, lambda: None)
        work(intake, Connections(made, intake, counters))
        await intake.drain()
        intake.close()
        return intake

    return asyncio.run(main())


def test_a_request_that_was_refused_in_its_middle_is_no_message(tmp_path):
    transport = Transport()

    def work(intake, connections):
        connection = HttpConnection(connections, {})
        connection.connection_made(transport)
        connections.partial_bytes = 99  # of others
        connection.data_received(
            b"POST /topics/t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody"
        )
        connection.data_received(b"POST /topics/t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")

    intake = in_an_agent(tmp_path, work, partial_bytes_max=100)
    assert transport.written.startswith(b"HTTP/1.1 503 ")
    assert transport.closed
    assert intake.lanes == {}


def test_an_answer_that_fails_is_nobody_elses(tmp_path):
    outcomes = []

    def fail(outcome):
        raise RuntimeError("the connection is gone")

    def work(intake, connections):
        intake.submit(Message("t", b"1"), fail, Origin())
        intake.submit(Message("t", b"2"), outcomes.append, Origin())

    intake = in_an_agent(tmp_path, work)
    assert [outcome.number for outcome in outcomes] == [1]
    assert intake.waiting_bytes == 0


def test_a_small_spool_takes_what_it_has_room_for(tmp_path):
    outcomes = []

    def work(intake, connections):
        for _ in range(100):
            intake.submit(Message("t", b"x" * 1000), outcomes.append, Origin())

    in_an_agent(tmp_path, work, quotas=(Quota("*", 0, 50_000),))
    taken = [outcome for outcome in outcomes if not outcome.reason]
    assert len(taken) > 30
    assert {outcome.reason for outcome in outcomes if outcome.reason} == {"spool_full"}


@pytest.mark.parametrize(
    "line",
    [
        b'{"topic": "t", "value": "v", "source": "\\ud800", "sequence": 1}',
        b'{"topic": "t", "value": "v", "headers": {"\\ud800": "x"}}',
        *(b'{"topic": "t", "value": ' + b"[" * depth + b"]" * depth + b"}" for depth in range(900, 1000, 5)),
    ],
)
def test_odd_json_is_a_message_or_is_refused(line):
    with contextlib.suppress(BadMessage):
        assert parse(line, 1).topic == "t"


@pytest.mark.parametrize("source", ["", "mine"])
def test_a_fork_is_another_source_on_another_connection(monkeypatch, source):
    client = AgentClient(source=source)
    before = client._line("t", b"v", None, None, None)
    ours, theirs = socket.socketpair()
    client._socket = ours
    monkeypatch.setattr(os, "getpid", lambda: -1)
    after = client._line("t", b"v", None, None, None)
    theirs.close()
    assert ours.fileno() == -1, "closed"
    name, sequence = (
        (client._source.encode(), b'"sequence": 1') if not source else (b"mine", b'"sequence": 2')
    )
    assert name in after
    assert (name in before) == bool(source)
    assert sequence in after
