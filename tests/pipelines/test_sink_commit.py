"""One transaction a micro-batch, on the driver's side: replays, other drivers, deaths between any two steps.

No Spark here. A driver's death is an exception that ends the commit at the given step, and a session that is
forgotten, as when its process is gone.
"""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from confluent_kafka.admin import AdminClient
from sink_helpers import create_topic, encoded, options, read_topic, values

from moldau.client.cluster import Cluster
from moldau.client.errors import UnknownTopic
from moldau.client.ledger import read_entry
from moldau.client.producer import Fenced, IdempotentProducer, TransactionalProducer
from moldau.testing import Broker
from moldau.tools.commands.groups import reset_offsets
from moldau.tools.commands.groups.description import describe_groups, offset_rows
from moldau.tools.shared.connection import Connection
from moldau.tools.shared.errors import CommandError
from moldau.tools.shared.offset_range import Bound
from pyspark_moldau import sink_commit
from pyspark_moldau.errors import ClientError, FencedError, SinkError

PARTITIONS = 3


class Died(BaseException):
    """The driver's process is gone."""


def forget() -> None:
    """As if the driver's process were a new one."""
    for session in sink_commit._sessions.values():
        session.close()
    sink_commit._sessions.clear()


def commit(
    broker: Broker, topic: str, run: str, batch_id: int, texts: list[str], query: str = "", **more: str
) -> None:
    chosen = options(broker.bootstrap_servers, topic, **more)
    sink_commit.commit_micro_batch(chosen, query or f"q-{topic}", run, batch_id, encoded(chosen, texts))


def seen(broker: Broker, topic: str, isolation: str = "read_committed") -> list[str]:
    return values(read_topic(broker.bootstrap_servers, topic, PARTITIONS, isolation))


@pytest.fixture
def ready(broker: Broker, topic: str) -> str:
    forget()
    create_topic(broker.bootstrap_servers, topic, PARTITIONS)
    return topic


@pytest.mark.parametrize("transactions", ["v1", "v2"])
def test_batches_follow_each_other(
    broker: Broker, ready: str, monkeypatch: pytest.MonkeyPatch, transactions: str
) -> None:
    """Also by the rules of transactions v1, which a cluster before Kafka 4 has: the epoch stays the same."""
    if transactions == "v1":
        monkeypatch.setattr(TransactionalProducer, "_speaks_v2", lambda self: False)
    for batch_id in range(4):
        commit(broker, ready, "run", batch_id, [f"{batch_id}-{i}" for i in range(50)])
    forget()
    commit(broker, ready, "run-2", 3, ["never"])
    commit(broker, ready, "run-2", 4, ["last"])
    expected = [f"{b}-{i}" for b in range(4) for i in range(50)]
    assert seen(broker, ready, "read_uncommitted") == sorted([*expected, "last"])
    with pytest.raises(FencedError):
        commit(broker, ready, "run", 5, ["never"])


def test_replayed_batch_is_not_written_again(broker: Broker, ready: str) -> None:
    commit(broker, ready, "run-1", 0, ["a", "b"])
    commit(broker, ready, "run-1", 1, ["c"])
    forget()
    commit(broker, ready, "run-2", 1, ["c"])
    commit(broker, ready, "run-2", 2, ["d"])
    assert seen(broker, ready, "read_uncommitted") == ["a", "b", "c", "d"]


@pytest.mark.parametrize("step", ["send", "commit_offset", "commit"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_driver_dies(
    broker: Broker, ready: str, monkeypatch: pytest.MonkeyPatch, step: str, moment: str
) -> None:
    commit(broker, ready, "run-1", 0, ["a"])
    original = getattr(TransactionalProducer, step)

    def dies(self: TransactionalProducer, *arguments: object) -> None:
        if moment == "after":
            original(self, *arguments)
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(TransactionalProducer, step, dies)
        with pytest.raises(Died):
            commit(broker, ready, "run-1", 1, ["b", "c", "d"])
    forget()
    commit(broker, ready, "run-2", 1, ["b", "c", "d"])
    commit(broker, ready, "run-2", 2, ["e"])
    assert seen(broker, ready) == ["a", "b", "c", "d", "e"]


def test_lost_answer_of_the_commit(broker: Broker, ready: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """EndTxn arrives, its answer does not: it is asked again, and the batch is written once."""
    commit(broker, ready, "run", 0, ["a"])
    from moldau.client.connection import Connection, ConnectionLost
    from moldau.common.protocol.messages.end_txn import EndTxnRequest

    original, lost = Connection.ask, []

    def ask(self: Connection, request: object, **more: object) -> object:
        answer = original(self, request, **more)  # type: ignore[arg-type]
        if isinstance(request, EndTxnRequest) and not lost:
            lost.append(request)
            self.close()
            raise ConnectionLost("the answer is lost")
        return answer

    monkeypatch.setattr(Connection, "ask", ask)
    commit(broker, ready, "run", 1, ["b"])
    commit(broker, ready, "run", 2, ["c"])
    assert lost
    assert seen(broker, ready, "read_uncommitted") == ["a", "b", "c"]


@pytest.mark.parametrize("remembers", [True, False])
def test_older_driver_is_fenced_and_says_so(broker: Broker, ready: str, remembers: bool) -> None:
    commit(broker, ready, "older", 0, ["a"])
    older = dict(sink_commit._sessions)
    sink_commit._sessions.clear()
    commit(broker, ready, "newer", 1, ["b"])
    newer = dict(sink_commit._sessions)
    sink_commit._sessions.clear()
    if remembers:
        sink_commit._sessions.update(older)
    with pytest.raises(
        FencedError, match=r"this run \(older\).*a later run \(newer\).*has committed batch 1"
    ):
        commit(broker, ready, "older", 2, ["never"])
    sink_commit._sessions.clear()
    sink_commit._sessions.update(newer)
    commit(broker, ready, "newer", 2, ["c"])  # although the older one has opened the id once more
    assert seen(broker, ready, "read_uncommitted") == ["a", "b", "c"]


def test_driver_that_only_found_its_batch_written_fences_the_older(broker: Broker, ready: str) -> None:
    commit(broker, ready, "older", 0, ["a"])
    older = dict(sink_commit._sessions)
    sink_commit._sessions.clear()
    commit(broker, ready, "newer", 0, ["a"])
    sink_commit._sessions.clear()
    sink_commit._sessions.update(older)
    with pytest.raises(FencedError):
        commit(broker, ready, "older", 1, ["never"])
    assert seen(broker, ready, "read_uncommitted") == ["a"]


def test_a_checkpoint_that_was_set_back(broker: Broker, ready: str) -> None:
    """What a query repeats is its last micro-batch. An earlier one was planned anew."""
    for batch_id in range(3):
        commit(broker, ready, "run-1", batch_id, [str(batch_id)])
    forget()
    with pytest.raises(SinkError, match="micro-batch 1 comes although 2 has been committed"):
        commit(broker, ready, "run-2", 1, ["new"])
    assert seen(broker, ready, "read_uncommitted") == ["0", "1", "2"]


def test_transaction_that_takes_too_long(broker: Broker, ready: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster aborts it and refuses the producer, as if there were another one."""
    seconds = iter(range(0, 10_000, 61))
    clock = SimpleNamespace(monotonic=lambda: next(seconds), sleep=lambda _: None)
    monkeypatch.setattr(sink_commit, "time", clock)

    def refused(*_: object) -> None:
        raise Fenced("another producer has taken over")

    monkeypatch.setattr(sink_commit._Session, "write", refused)
    with pytest.raises(SinkError, match=r"takes longer than kafka\.transaction\.timeout\.ms \(60000 ms\)"):
        commit(broker, ready, "run", 0, ["a"])


def test_two_queries_with_one_id(broker: Broker, ready: str) -> None:
    name = f"shared-{ready}"
    commit(broker, ready, "run-1", 7, ["a"], query="one", transactionalId=name)
    forget()
    commit(broker, ready, "run-2", 0, ["b"], query="two", transactionalId=name)
    forget()
    with pytest.raises(FencedError, match="another query"):
        commit(broker, ready, "run-1", 8, ["never"], query="one", transactionalId=name)
    forget()
    commit(broker, ready, "run-2", 1, ["c"], query="two", transactionalId=name)
    assert seen(broker, ready) == ["a", "b", "c"]


def test_batches_with_numbers_of_their_own(broker: Broker, ready: str) -> None:
    for batch_id, text in [(0, "a"), (0, "again"), (1, "b"), (1, "again")]:
        chosen = options(broker.bootstrap_servers, ready, transactionalId=f"t-{ready}", batchId=str(batch_id))
        sink_commit.commit_batch(chosen, None, None, encoded(chosen, [text]))
    chosen = options(broker.bootstrap_servers, ready, transactionalId=f"t-{ready}", batchId="0")
    with pytest.raises(SinkError, match="batchId 0 is lower than 1, the last one written"):
        sink_commit.commit_batch(chosen, None, None, encoded(chosen, ["a"]))
    chosen = options(broker.bootstrap_servers, ready)
    for _ in range(2):  # no numbers: whole or not at all, but as often as one asks
        sink_commit.commit_batch(chosen, None, None, encoded(chosen, ["c"]))
    assert seen(broker, ready) == ["a", "b", "c", "c"]


def test_people_see_a_ledger_and_no_lag(broker: Broker, ready: str) -> None:
    commit(broker, ready, "run", 41, ["a"], transactionalId=ready)
    group = sink_commit.ledger_group(ready)
    with Cluster(broker.bootstrap_servers) as cluster:
        read_entry(cluster, group)  # waits for the end of the transaction
    connection = Connection(broker.bootstrap_servers)
    (row,) = offset_rows(connection.cluster(), *describe_groups(connection, [group]))
    assert (row["note"], row["lag"]) == ("ledger of an exactly-once sink: micro-batch 41", None)
    with pytest.raises(CommandError, match="write a micro-batch twice"):
        reset_offsets._plan(connection, group, Bound("end"), None, None)


def test_topic_is_gone_while_requests_are_on_their_way(
    broker: Broker, ready: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is now is asked when all answers are in: the next would be taken for that of the question."""
    monkeypatch.setattr("moldau.client.cluster.UNKNOWN_TOPIC_GRACE_SECONDS", 0)
    one = encoded(options(broker.bootstrap_servers, ready), ["a"])
    with Cluster(broker.bootstrap_servers) as cluster:
        producer = IdempotentProducer(cluster)
        producer.send(one)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.delete_topics([ready])[ready].result(10)
        with pytest.raises(UnknownTopic, match=f"there is no topic {ready}"):
            producer.send(one * 20)


def test_refused_batch_is_aborted(broker: Broker, ready: str) -> None:
    with pytest.raises(ClientError, match=r"larger than max\.message\.bytes"):
        commit(broker, ready, "run", 0, ["x" * 3_000_000])
    forget()
    commit(broker, ready, "run", 1, ["a"])
    assert seen(broker, ready) == ["a"]


@pytest.mark.parametrize("step", ["open", "send", "commit_offset", "commit"])
def test_broker_dies_in_the_middle(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """It is killed before a step, and back a moment later: the transaction goes on, or begins anew."""
    forget()
    with Broker(process=True) as own:
        create_topic(own.bootstrap_servers, "t", PARTITIONS)
        if step != "open":
            commit(own, "t", "run", 0, ["a"])
        original, killed = getattr(TransactionalProducer, step), []

        def step_of_a_dead_broker(self: TransactionalProducer, *arguments: object) -> None:
            if not killed:
                killed.append(step)
                own.kill()
                threading.Timer(0.3, own.restart).start()
            original(self, *arguments)

        monkeypatch.setattr(TransactionalProducer, step, step_of_a_dead_broker)
        commit(own, "t", "run", 1, ["b", "c", "d"])
        commit(own, "t", "run", 2, ["e"])
        assert killed
        before = [] if step == "open" else ["a"]
        assert seen(own, "t") == [*before, "b", "c", "d", "e"]
