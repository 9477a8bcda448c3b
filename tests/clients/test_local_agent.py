"""`moldau agent` with a real broker: nothing lost, nothing doubled, in order, whoever is killed in between.

Judged by reading the topics back.
"""

import random
import resource
import shutil
import threading

import pytest
from local_agent import LocalAgent, read_topic, read_until, wait_for
from torture.cluster_proxy import Cable

from moldau.kit.agent_client import AgentClient, AgentRefused
from moldau.testing import Broker
from moldau.testing.ports import reserve_port

pytestmark = pytest.mark.client


def send_in_background(agent, topics, count, pause_seconds=0.0):
    """Numbered messages to each topic, from a client that goes on when the agent is back."""
    pause = threading.Event()

    def send(topic):
        with AgentClient(agent.socket, timeout_seconds=60) as client:
            for start in range(0, count, 20):
                client.send_many(topic, [b"%d" % number for number in range(start, start + 20)])
                pause.wait(pause_seconds)

    threads = [threading.Thread(target=send, args=(topic,)) for topic in topics]
    for thread in threads:
        thread.start()
    return threads


def send_fits(client, value):
    """Whether the agent takes one more message."""
    try:
        client.send("one", value)
    except AgentRefused as refused:
        if refused.reason != "disk_full":
            raise
        return False
    return True


def values_of(records):
    return [int(record.value()) for record in records]


def test_kill_9_of_agent_and_broker_loses_and_doubles_nothing(tmp_path):
    chance = random.Random(12)
    with Broker(process=True, moldau_durability="group") as broker:
        for topic in ("one", "two"):
            broker.create_topic(topic)
        agent = LocalAgent(tmp_path / "agent", broker.bootstrap_servers)
        count = 3000
        with agent:
            threads = send_in_background(agent, ["one", "two"], count)
            for round_number in range(4):
                accepted = sum(each["accepted"] for each in agent.status()["topics"].values())
                more = accepted + chance.randint(20, 300)
                wait_for(
                    lambda more=more: (
                        sum(each["accepted"] for each in agent.status()["topics"].values()) >= more
                        or not any(thread.is_alive() for thread in threads)
                    ),
                    "more messages",
                )
                agent.kill()
                if round_number == 2:
                    broker.kill()
                agent.start()
                if round_number == 2:
                    broker.restart()
            for thread in threads:
                thread.join(60)
            assert values_of(read_topic(broker.bootstrap_servers, "one", count)) == list(range(count))
            assert values_of(read_topic(broker.bootstrap_servers, "two", count)) == list(range(count))
            assert agent.stop() == 0


def test_at_least_once_loses_nothing_and_keeps_the_order(tmp_path):
    with Broker() as broker:
        broker.create_topic("one")
        agent = LocalAgent(tmp_path / "agent", broker.bootstrap_servers, "--delivery", "at-least-once")
        with agent:
            for start in range(0, 900, 300):
                with AgentClient(agent.socket) as client:
                    client.send_many("one", [b"%d" % number for number in range(start, start + 300)])
                agent.kill()  # some of these are delivered, some are not
                agent.start()
            found = values_of(read_until(broker.bootstrap_servers, "one", b"899"))
            assert list(dict.fromkeys(found)) == list(range(900))
            assert agent.stop() == 0


def test_a_crash_after_the_commit_and_before_the_local_save_repeats_nothing(tmp_path):
    with Broker() as broker:
        broker.create_topic("one")
        agent = LocalAgent(tmp_path / "agent", broker.bootstrap_servers)
        position = agent.folder / "topics" / "one" / "position"
        with agent:
            with AgentClient(agent.socket) as client:
                client.send("one", b"0")
                before = position.read_bytes()
                client.send_many("one", [b"%d" % number for number in range(1, 50)])
            wait_for(lambda: agent.status()["topics"]["one"]["delivered"] == 50, "the deliveries")
            agent.kill()
            position.write_bytes(before)  # as if nothing had been saved here since
            agent.start()
            with AgentClient(agent.socket) as client:
                client.send("one", b"50")
            found = values_of(read_topic(broker.bootstrap_servers, "one", 51))
            assert found == list(range(51))
            assert agent.stop() == 0


def test_a_network_that_stalls_holds_deliveries_up_and_doubles_none(tmp_path):
    port = reserve_port()
    cable = Cable(("127.0.0.1", port.number))
    try:
        with Broker(
            listeners=f"PLAINTEXT://127.0.0.1:{port.number}",
            advertised_listeners=f"PLAINTEXT://{cable.address}",
        ) as broker:
            broker.create_topic("one")
            fast = ("-X", "socket.timeout.ms=2000", "-X", "transaction.timeout.ms=10000")
            with LocalAgent(tmp_path / "agent", cable.address, *fast) as agent:
                threads = send_in_background(agent, ["one"], 2000, pause_seconds=0.03)
                for _ in range(2):
                    before = agent.status()["topics"].get("one", {}).get("delivered", 0)
                    wait_for(
                        lambda before=before: (
                            agent.status()["topics"].get("one", {}).get("delivered", 0) > before
                            or not threads[0].is_alive()
                        ),
                        "deliveries",
                    )
                    cable.cut()
                    threads[0].join(1.5)  # messages are taken, or all are
                    cable.heal()
                threads[0].join(60)
                found = values_of(read_topic(broker.bootstrap_servers, "one", 2000))
                assert found == list(range(2000))
                assert agent.stop() == 0
    finally:
        cable.close()
        port.release()


def test_a_full_disk_is_answered_and_nothing_taken_is_lost(tmp_path):
    with Broker() as broker:
        broker.create_topic("one")
        with LocalAgent(tmp_path / "agent", broker.bootstrap_servers) as agent:
            with AgentClient(agent.socket) as client:
                client.send_many("one", [b"%d" % number for number in range(100)])
                _, hard = resource.prlimit(agent.pid, resource.RLIMIT_FSIZE)
                resource.prlimit(agent.pid, resource.RLIMIT_FSIZE, (20_000, hard))
                taken = 100
                while send_fits(client, b"%d" % taken + b" " * 500):
                    taken += 1
                with pytest.raises(AgentRefused, match="disk_full"):
                    client.send("one", b"-1" + b" " * 500)
                resource.prlimit(agent.pid, resource.RLIMIT_FSIZE, (hard, hard))
                client.send("one", b"%d" % taken)
            found = values_of(read_topic(broker.bootstrap_servers, "one", taken + 1))
            assert found == list(range(taken + 1))
            assert agent.status()["topics"]["one"]["refused"] == {"disk_full": 2}


def test_a_second_agent_of_the_same_name_takes_over_and_an_old_copy_is_refused(tmp_path):
    with Broker() as broker:
        broker.create_topic("one")
        first = LocalAgent(tmp_path / "first", broker.bootstrap_servers)
        with first:
            with AgentClient(first.socket) as client:
                client.send("one", b"0")
            wait_for(lambda: first.status()["topics"]["one"]["delivered"] == 1, "the delivery")
            first.kill()
            shutil.copytree(first.folder, tmp_path / "copy", ignore=shutil.ignore_patterns("*.sock"))
            first.start()
            # So the second one gets the later epoch; the other way round it would be the second that ends.
            wait_for(lambda: first.status()["delivery"] == "delivering", "the first agent")
            second = LocalAgent(tmp_path / "copy", broker.bootstrap_servers)
            with second:
                wait_for(lambda: second.status()["delivery"] == "delivering", "the second agent")
                with AgentClient(first.socket) as client:
                    client.send("one", b"late")
                assert first.process.wait(60) == 1
                assert "another agent with the same id has taken over" in first.log()
                with AgentClient(second.socket) as client:
                    client.send("one", b"1")
                    client.send("one", b"2")
                found = values_of(read_topic(broker.bootstrap_servers, "one", 3))
                assert found == [0, 1, 2]
                assert second.stop() == 0
            shutil.copytree(tmp_path / "copy", tmp_path / "old", ignore=shutil.ignore_patterns("topics"))
            shutil.copytree(first.folder / "topics", tmp_path / "old" / "topics")
            old = LocalAgent(tmp_path / "old", broker.bootstrap_servers)
            with old:
                assert old.process.wait(60) == 1
                assert "it is an older copy" in old.log()
