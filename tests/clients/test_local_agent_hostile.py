"""What bad clients can do to an agent: all is answered or counted, memory is bounded, others are served."""

import json
import random
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from local_agent import LocalAgent, read_topic, wait_for
from prometheus_client.parser import text_string_to_metric_families

from moldau.kit.agent_client import AgentClient, AgentRefused
from moldau.testing import Broker

pytestmark = pytest.mark.client

MEMORY_BYTES = 160 << 20
"""How far the agent's memory may rise: what may wait for the disk, unfinished lines, Python around it."""


@pytest.fixture(scope="module")
def broker():
    with Broker(max_connections=1000) as broker:
        yield broker


def resident_bytes(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def connect(agent):
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(60)
    connection.connect(str(agent.socket))
    return connection


def answers(connection):
    with connection.makefile("rb") as lines:
        return [line.decode().rstrip("\n") for line in lines]


def http(agent, path, body=None, **headers):
    request = urllib.request.Request(f"http://{agent.ready['http_address']}{path}", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read()


def test_lines_that_are_no_messages_are_answered_in_order(broker, tmp_path):
    with LocalAgent(tmp_path / "agent", broker.bootstrap_servers, "--message-bytes", "1000") as agent:
        with connect(agent) as connection:
            connection.sendall(
                b"lines one\n\r\n\xff\xfe x\nno-value\nlines " + b"x" * 2000 + b"\n"
                b"{]\n[]\n" + b"lines " + b"y" * 3_000_000 + b"\nlines:k two\r\nlines three"
            )
            connection.shutdown(socket.SHUT_WR)
            said = [" ".join(line.split(" ")[:2]) for line in answers(connection)]
        assert said == [
            "ok lines",
            "error bad_message",
            "error bad_message",
            "error too_large",
            "error bad_message",
            "error bad_message",
            "error too_large",
            "ok lines",
            "ok lines",
        ]
        found = read_topic(broker.bootstrap_servers, "lines", 3)
        assert [(record.key(), record.value()) for record in found] == [
            (None, b"one"),
            (b"k", b"two"),
            (None, b"three"),
        ]


def test_http_answers_with_the_reason_and_keeps_web_pages_out(broker, tmp_path):
    arguments = ("--message-bytes", "1000", "--topics", "2", "--quota", "slow=10,1000000")
    with LocalAgent(tmp_path / "agent", broker.bootstrap_servers, *arguments) as agent:
        assert http(agent, "/topics/web?key=k", b"one")[0] == 200
        status, body = http(agent, "/topics/web?lines", b"two\nthree\n")
        assert (status, json.loads(body)["accepted"]) == (200, 2)
        assert http(agent, "/topics/web", b"x" * 5000)[0] == 413
        assert http(agent, "/topics/web", b"x" * 5_000_000)[0] == 413
        assert http(agent, "/topics/no%20name", b"x")[0] == 400
        assert http(agent, "/nowhere")[0] == 404
        assert http(agent, "/topics/web", b"x", Origin="http://evil.example")[0] == 403
        assert http(agent, "/status", None, Host="evil.example")[0] == 403
        assert http(agent, "/topics/slow", b"x" * 100)[0] == 200
        assert http(agent, "/topics/slow", b"x" * 100)[0] == 429
        assert http(agent, "/topics/third", b"x")[0] == 429
        wait_for(lambda: agent.status()["topics"]["web"]["delivered"] == 3, "the delivery")
        families = {
            family.name: family
            for family in text_string_to_metric_families(http(agent, "/metrics")[1].decode())
        }
        delivered = {row.labels["topic"]: row.value for row in families["moldau_agent_delivered"].samples}
        assert delivered["web"] == 3
        assert http(agent, "/health")[0] == 200


def test_what_kafka_refuses_for_good_is_discarded_and_reported_and_nothing_else(tmp_path):
    with Broker(auto_create_topics_enable=False) as broker:
        broker.create_topic("small", max_message_bytes=2000)
        too_large = random.Random(1).randbytes(5000)  # which no compression makes small
        broker.create_topic("moldau-agent-discards")
        agent = LocalAgent(tmp_path / "agent", broker.bootstrap_servers)
        with agent:
            with AgentClient(agent.socket) as client:
                client.send("missing", b"waits")
                client.send_many("small", [too_large if n == 50 else b"%d" % n for n in range(100)])
            found = read_topic(broker.bootstrap_servers, "small", 99)
            assert [record.value() for record in found] == [b"%d" % n for n in range(100) if n != 50]
            (report,) = read_topic(broker.bootstrap_servers, "moldau-agent-discards", 1)
            said = json.loads(report.value())
            assert (said["topic"], said["reason"], said["count"]) == ("small", "msg_size_too_large", 1)
            about = agent.status()["topics"]
            assert about["small"]["discarded"] == {"msg_size_too_large": 1}
            assert "UNKNOWN_TOPIC" in about["missing"]["held"]
            broker.create_topic("missing")
            assert read_topic(broker.bootstrap_servers, "missing", 1)[0].value() == b"waits"
            assert agent.stop() == 0


def test_a_refused_message_among_many_partitions_holds_nothing_up(broker, tmp_path):
    """A failed transaction takes nothing more; what librdkafka had not sent yet was once waited for until the
    broker's time was over.
    """
    broker.create_topic("spread", 4, max_message_bytes=3000)
    numbers = random.Random(1)
    with LocalAgent(tmp_path / "agent", broker.bootstrap_servers) as agent:
        with AgentClient(agent.socket) as client:
            for number in range(400):
                size = 5000 if number == 150 else 200
                value = b"%d " % number + numbers.randbytes(size)
                client._send([client._line("spread", value, b"%d" % (number % 20), None, None)])
        wait_for(lambda: not agent.status()["topics"]["spread"]["waiting"], "the delivery")
        assert agent.status()["topics"]["spread"]["discarded"] == {"msg_size_too_large": 1}
        found = [
            int((record.value() or b"").split(b" ")[0])
            for partition in range(4)
            for record in read_topic(broker.bootstrap_servers, "spread", 1, partition)
        ]
        assert sorted(found) == [number for number in range(400) if number != 150]
        for key in range(20):
            of_key = [number for number in found if number % 20 == key]
            assert of_key == sorted(of_key)


def test_memory_is_bounded_whatever_is_sent(broker, tmp_path):
    with LocalAgent(tmp_path / "agent", broker.bootstrap_servers) as agent:
        before = resident_bytes(agent.pid)
        idle = [connect(agent) for _ in range(1000)]
        for connection in idle:
            connection.setblocking(False)
            try:
                connection.send(b"stuck " + b"x" * 150_000)  # a line that is never finished
            except (BlockingIOError, BrokenPipeError, ConnectionResetError):
                continue
        never_reads = connect(agent)
        never_reads.settimeout(2)
        try:
            for _ in range(3000):
                never_reads.sendall(b"no topic, no value \n" * 500)
        except TimeoutError:
            pass  # it is not read from any more
        else:
            pytest.fail("a client that never reads its answers was read from for ever")
        host, port = agent.ready["udp_address"].split(":")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flood:
            for _ in range(20_000):
                flood.sendto(b"flood " + b"x" * 1000, (host, int(port)))
        with AgentClient(agent.socket) as client:  # others are served meanwhile
            client.send("good", b"one")
        assert resident_bytes(agent.pid) - before < MEMORY_BYTES
        for connection in [*idle, never_reads]:
            connection.close()
        wait_for(lambda: agent.status()["connections"] == 1, "the end of the connections")
        assert read_topic(broker.bootstrap_servers, "good", 1)[0].value() == b"one"


def test_submit_and_status_by_command_and_a_killed_agents_socket_is_replaced(broker, tmp_path):
    def moldau(*words, stdin=""):
        command = [sys.executable, "-m", "moldau", "agent", *words, "-d", str(tmp_path / "agent")]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=60)

    missing = moldau("submit", "orders", "one")
    assert missing.returncode == 1
    assert "start one with `moldau agent run`" in missing.stderr
    with LocalAgent(tmp_path / "agent", broker.bootstrap_servers) as agent:
        agent.kill()
        assert agent.socket.exists()
        agent.start()
        assert moldau("submit", "orders", "--key", "k", stdin="one\ntwo\n").returncode == 0
        found = read_topic(broker.bootstrap_servers, "orders", 2)
        assert [(record.key(), record.value()) for record in found] == [(b"k", b"one"), (b"k", b"two")]
        refused = moldau("submit", "no name", "x")
        assert refused.returncode == 1
        assert "the topic's name must be" in refused.stderr
        second = moldau("run")
        assert second.returncode == 1
        assert "an agent runs in" in second.stderr
        said = moldau("status")
        assert said.returncode == 0
        assert "delivery: delivering" in said.stdout


def test_numbered_messages_are_taken_once_also_after_a_restart(broker, tmp_path):
    agent = LocalAgent(tmp_path / "agent", broker.bootstrap_servers, "--quota", "limited=2000,1000000")
    with agent:
        with AgentClient(agent.socket, source="app") as client:
            for sequence in (1, 2, 3):
                assert client.send("numbered", b"%d" % sequence, sequence=sequence) == sequence - 1
        agent.kill()
        agent.start()
        with AgentClient(agent.socket, source="app") as client:
            assert client.send("numbered", b"3", sequence=3) == -1
            assert client.send("numbered", b"4", sequence=4) == 3
            with pytest.raises(AgentRefused, match="quota"):
                client.send_many("limited", [b"x" * 900] * 20)
        found = read_topic(broker.bootstrap_servers, "numbered", 4)
        assert [record.value() for record in found] == [b"1", b"2", b"3", b"4"]
