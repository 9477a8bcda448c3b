"""What a transactional request is answered when its sender is not who it should be, or the moment is wrong.

The tables are Apache Kafka 4.3.1's answers (`MOLDAU_TEST_BROKER=kafka` checks them; where Moldau differs, the
test says so), version by version, because old versions know fewer codes. After every refusal the
coordinator's state, the partition, its producers and the group's offsets are what they were.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from client_confluent import create_topic
from client_model import Place, eventually
from client_raw_transactions import (
    INIT_PRODUCER_ID,
    RawProducer,
    active_producers,
    ends,
    fetch,
    group_offset,
    write_marker,
)
from conftest import KIND
from raw_client import RawClient

ALTER_CONFIGS = 44

Ask = Callable[..., str]
REQUESTS: dict[str, tuple[Sequence[int], Ask]] = {
    "commit": (range(6), lambda one, place, v, **claims: one.end(True, v, **claims)),
    "abort": (range(6), lambda one, place, v, **claims: one.end(False, v, **claims)),
    "add": (range(4), lambda one, place, v, **claims: one.add(place, version=v, **claims)),
    "broker add": ((4, 5), lambda one, place, v, **claims: one.add(place, version=v, **claims)),
    "verify": ((4, 5), lambda one, place, v, **claims: one.add(place, version=v, verify_only=True, **claims)),
    "offsets": (range(5), lambda one, place, v, **claims: one.add_offsets(one.transactional_id, v, **claims)),
    "offset commit": (
        range(6),
        lambda one, place, v, **claims: one.commit_offset(one.transactional_id, place, 7, v, **claims),
    ),
    "produce": (
        (3, 7, 10, 11, 12),
        lambda one, place, v, **claims: one.produce(place, b"x", version=v, sequence=0, **claims),
    ),
}
STATES = ("empty", "ongoing", "committed v1", "aborted v1", "committed v2", "aborted v2")
EPOCH, FENCED, STATE = "invalid_producer_epoch", "producer_fenced", "invalid_txn_state"
UNKNOWN, ABORTABLE = "invalid_producer_id_mapping", "transaction_abortable"

# An epoch that is not the transactional id's, older or newer, in whatever state.
OTHER_EPOCH = {
    "commit": f"0-1:{EPOCH} 2-5:{FENCED}",
    "abort": f"0-1:{EPOCH} 2-5:{FENCED}",
    "add": f"0-1:{EPOCH} 2-3:{FENCED}",
    "broker add": f"4-5:{FENCED}",
    "verify": f"4-5:{FENCED}",
    "offsets": f"0-1:{EPOCH} 2-4:{FENCED}",
    "offset commit": f"0-5:{EPOCH}",
    "produce": f"3-12:{EPOCH}",
}
OLDER_EPOCH = f"0-1:{EPOCH} 2-5:{FENCED}"
# With transactions v2 the epoch before is the one that the transaction just ended with: a retry.
RETRIED = {
    ("committed", "commit"): f"0-1:{EPOCH} 2-4:{FENCED} 5:none",
    ("committed", "abort"): f"0-1:{EPOCH} 2-4:{FENCED} 5:{STATE}",
    # Only the coordinator's own abort is followed by a commit. Kafka 4.3 says invalid_txn_state, later ones
    # (KAFKA-20785) and Moldau that the producer is fenced.
    ("aborted", "commit"): f"0-1:{EPOCH} 2-4:{FENCED} 5:{STATE}" if KIND == "kafka" else OLDER_EPOCH,
    ("aborted", "abort"): f"0-1:{EPOCH} 2-4:{FENCED} 5:none",
}

# The right producer, at a moment when nothing, or not this partition, is in a transaction.
NOT_ADDED = {
    "add": "0-3:none",
    "broker add": "4-5:none",
    "verify": f"4-5:{ABORTABLE}",
    "offsets": "0-4:none",
    "offset commit": f"0-3:{STATE} 4:{ABORTABLE} 5:none",
    "produce": f"3-10:{STATE} 11:{ABORTABLE} 12:none",
}
RIGHT_PRODUCER = {
    "empty": {"commit": f"0-5:{STATE}", "abort": f"0-4:{STATE} 5:none"},
    "committed": {"commit": f"0-4:none 5:{STATE}", "abort": f"0-4:{STATE} 5:none"},
    "aborted": {"commit": f"0-5:{STATE}", "abort": "0-5:none"},
    "ongoing": {"commit": "0-5:none", "abort": "0-5:none"},
}


# While the last decision is carried out. Whoever could be the next producer is told to come back, before its
# id and epoch are compared; those of an end of version 1 and of a mere question are compared first.
BUSY = "concurrent_transactions"
NOBODY_IS_COMPARED = {
    "commit": "0-5:" + BUSY,
    "abort": "0-5:" + BUSY,
    "add": "0-3:" + BUSY,
    "broker add": "4-5:" + BUSY,
    "verify": "4-5:" + BUSY,
    "offsets": "0-4:" + BUSY,
    "offset commit": "0-5:" + BUSY,
    "produce": "3-11:not_enough_replicas 12:" + BUSY,  # what an old producer takes as "again"
}
OTHERS_ARE_COMPARED = {
    "commit": f"0-1:{EPOCH} 2-4:{FENCED} 5:{BUSY}",
    "abort": f"0-1:{EPOCH} 2-4:{FENCED} 5:{BUSY}",
    "verify": f"4-5:{FENCED}",
    "offset commit": f"0-4:{EPOCH} 5:{BUSY}",
    "produce": f"3-11:{EPOCH} 12:{BUSY}",
}
FOREIGN_IS_COMPARED = {
    "commit": f"0-4:{UNKNOWN} 5:{BUSY}",
    "abort": f"0-4:{UNKNOWN} 5:{BUSY}",
    "verify": f"4-5:{UNKNOWN}",
    "offset commit": f"0-4:{UNKNOWN} 5:{BUSY}",
    "produce": f"3-11:{UNKNOWN} 12:{BUSY}",
}


@pytest.fixture(scope="module")
def raw(bootstrap: str) -> Iterator[RawClient]:
    with RawClient(bootstrap) as one:
        yield one


@pytest.fixture(scope="module")
def shared_topic(bootstrap: str, raw: RawClient) -> str:
    """Two partitions: transactions go to the first, the second is what they did not add."""
    topic = f"refused-{os.urandom(4).hex()}"
    create_topic(bootstrap, topic, 2)
    eventually(lambda: ends(raw, (topic, 0), (topic, 1)) == [(0, 0), (0, 0)])
    return topic


@pytest.fixture(scope="module")
def other_topic(bootstrap: str, raw: RawClient, shared_topic: str) -> str:
    """One more, which no transaction has added."""
    topic = f"{shared_topic}-other"
    create_topic(bootstrap, topic, 1)
    eventually(lambda: ends(raw, (topic, 0)) == [(0, 0)])
    return topic


@pytest.fixture(scope="module")
def in_state(raw: RawClient, shared_topic: str) -> Callable[[str], RawProducer]:
    """Makes a producer of a new transactional id, of epoch 1 or more, whose transaction is in a state."""
    numbers = itertools.count()

    def make(state: str) -> RawProducer:
        one = RawProducer(raw, f"{shared_topic}-{next(numbers)}")
        assert [one.init(), one.init()] == ["none", "none"]
        if state != "empty":
            assert one.add((shared_topic, 0)) == "none"
            assert one.produce((shared_topic, 0), b"in a transaction") == "none"
        if state not in ("empty", "ongoing"):
            one.finish(state.startswith("committed"), version=5 if state.endswith("v2") else 4)
        return one

    return make


def standing(one: RawProducer, topic: str) -> tuple[Any, ...]:
    """All that a refusal must leave alone."""
    one.settle()
    places = [(topic, 0), (topic, 1)]
    producers = [
        row for place in places for row in active_producers(one.raw, place) if row[0] == one.producer_id
    ]
    return (
        one.describe(),
        ends(one.raw, *places),
        producers,
        group_offset(one.raw, one.transactional_id, places[0]),
    )


def in_ranges(codes: Sequence[tuple[int, str]]) -> str:
    """Codes by version, shortened: `0-1:this 2-5:that`."""
    parts = []
    for code, group in itertools.groupby(codes, key=lambda one: one[1]):
        versions = [version for version, _ in group]
        parts.append(f"{versions[0]}{f'-{versions[-1]}' if versions[1:] else ''}:{code}")
    return " ".join(parts)


def ask_as(one: RawProducer, place: Place, producer_id: int, producer_epoch: int) -> dict[str, str]:
    """Every request in every version, with these claims."""
    return {
        name: in_ranges(
            [
                (v, ask(one, place, v, producer_id=producer_id, producer_epoch=producer_epoch))
                for v in versions
            ]
        )
        for name, (versions, ask) in REQUESTS.items()
    }


@pytest.mark.parametrize("state", STATES)
def test_another_epoch(state: str, in_state: Callable[[str], RawProducer], shared_topic: str) -> None:
    one = in_state(state)
    before = standing(one, shared_topic)
    ended, _, version = state.partition(" ")
    # Kafka takes it for a retry also where transactions v1 never bumps: a fenced producer is told that its
    # transaction was committed, which was another's. Moldau fences it.
    known = version == "v2" or (version == "v1" and KIND == "kafka")
    retried = {name: code for (how, name), code in RETRIED.items() if how == ended and known}
    producer_id, producer_epoch = one.producer_id, one.producer_epoch
    older = ask_as(one, (shared_topic, 0), producer_id, producer_epoch - 1)
    assert older == OTHER_EPOCH | retried
    # The retry was told the id and epoch of the next transaction, which are the present ones.
    assert (one.producer_id, one.producer_epoch) == (producer_id, producer_epoch)
    newer = ask_as(one, (shared_topic, 0), producer_id, producer_epoch + 1)
    assert newer == OTHER_EPOCH
    assert standing(one, shared_topic) == before


@pytest.mark.parametrize("version", [4, 5], ids=["v1", "v2"])
@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
def test_while_the_last_decision_is_carried_out(
    committed: bool,
    version: int,
    in_state: Callable[[str], RawProducer],
    shared_topic: str,
    other_topic: str,
    raw: RawClient,
) -> None:
    """Moldau waits a tenth of a second before it says so; Kafka refuses at once."""
    one = in_state("ongoing")
    elsewhere = (other_topic, 0)  # which takes records all the while
    with undeliverable(raw, one, (shared_topic, 0)):
        assert one.end(committed, version) == "none"
        eventually(lambda: one.describe()[0].startswith("Prepare"))
        before = one.describe()
        producer_id, producer_epoch = one.producer_id, one.producer_epoch
        for epoch in (producer_epoch, producer_epoch - 1, producer_epoch + 1, producer_epoch + 7):
            answers = ask_as(one, elsewhere, producer_id, epoch)
            compared = {} if epoch == producer_epoch else OTHERS_ARE_COMPARED
            assert answers == NOBODY_IS_COMPARED | compared, epoch - producer_epoch
        foreign = ask_as(one, elsewhere, 1 << 40, producer_epoch)
        assert foreign == NOBODY_IS_COMPARED | FOREIGN_IS_COMPARED
        for claims in (
            {},
            {"producer_id": producer_id, "producer_epoch": producer_epoch},
            {"producer_id": producer_id, "producer_epoch": producer_epoch - 1},
            {"producer_id": 1 << 40, "producer_epoch": 3},
        ):
            asked = {"producer_id": -1, "producer_epoch": -1, "transactional_id": one.transactional_id}
            answer = raw.call(INIT_PRODUCER_ID, 5, transaction_timeout=60_000, **asked | claims)
            assert answer.error_code.name == BUSY, claims
        assert one.describe() == before


@contextmanager
def undeliverable(raw: RawClient, one: RawProducer, place: Place) -> Iterator[None]:
    """Meanwhile the partition takes no marker of the producer's transaction."""
    if KIND == "kafka":
        # A marker with a higher epoch has been there: Kafka never delivers this one, nor completes.
        marker = {"producer_id": one.producer_id, "producer_epoch": one.producer_epoch + 20}
        assert write_marker(raw, [place], transaction_result=False, **marker) == "none"
        yield
        return
    # A marker has 78 bytes, and is tried again and again; the batches of these tests have 69.
    set_topic(raw, place[0], "max.message.bytes", "77")
    try:
        yield
    finally:
        set_topic(raw, place[0], "max.message.bytes", "1048588")
        one.settle()


def set_topic(raw: RawClient, topic: str, name: str, value: str) -> None:
    """Change one setting of a topic."""
    configs = [{"name": name, "config_operation": 0, "value": value}]
    resource = {"resource_type": 2, "resource_name": topic, "configs": configs}
    (answer,) = raw.call(ALTER_CONFIGS, 1, resources=[resource], validate_only=False).responses
    assert answer.error_code.name == "none", answer.error_message


@pytest.mark.parametrize("state", STATES)
def test_another_producer_id(state: str, in_state: Callable[[str], RawProducer], shared_topic: str) -> None:
    one, other = in_state(state), in_state("empty")
    before, other_before = standing(one, shared_topic), standing(other, shared_topic)
    for stranger in (other.producer_id, 1 << 40):
        answers = ask_as(one, (shared_topic, 0), stranger, one.producer_epoch)
        assert answers == {
            name: in_ranges([(v, UNKNOWN) for v in versions]) for name, (versions, _) in REQUESTS.items()
        }
    assert standing(one, shared_topic) == before
    assert standing(other, shared_topic) == other_before


def test_a_transactional_id_that_nobody_has(raw: RawClient, shared_topic: str) -> None:
    nobody = RawProducer(raw, f"nobody-{shared_topic}")
    nobody.producer_id, nobody.producer_epoch = 1 << 40, 0
    answers = ask_as(nobody, (shared_topic, 0), 1 << 40, 0)
    assert answers == {
        name: in_ranges([(v, UNKNOWN) for v in versions]) for name, (versions, _) in REQUESTS.items()
    }
    assert nobody.describe()[0] == "transactional_id_not_found"


@pytest.mark.parametrize("state", STATES)
def test_the_wrong_moment(state: str, in_state: Callable[[str], RawProducer], shared_topic: str) -> None:
    place = (shared_topic, 1)  # which no transaction has added
    found = {}
    for name, (versions, ask) in REQUESTS.items():
        codes = []
        for version in versions:
            one = in_state(state)
            before = standing(one, shared_topic)
            codes.append((version, ask(one, place, version)))
            one.settle()
            if codes[-1][1] != "none":
                assert standing(one, shared_topic) == before, (name, version)
            elif name == "commit":
                assert one.describe()[0] == "CompleteCommit"
            elif name == "abort":
                assert one.describe()[0] == "CompleteAbort"
            elif name != "produce":
                assert one.describe()[0] == "Ongoing"
        found[name] = in_ranges(codes)
    assert found == NOT_ADDED | RIGHT_PRODUCER[state.split(maxsplit=1)[0]]


@pytest.mark.parametrize("state", STATES)
def test_init_with_what_is_not_the_producers(
    state: str, in_state: Callable[[str], RawProducer], shared_topic: str
) -> None:
    one = in_state(state)
    before = standing(one, shared_topic)
    for version, refusal in ((3, EPOCH), (4, FENCED), (5, FENCED)):
        assert one.init(version, producer_id=1 << 40, producer_epoch=one.producer_epoch) == refusal
        if state != "ongoing":
            epoch = one.producer_epoch + 1
            assert one.init(version, producer_id=one.producer_id, producer_epoch=epoch) == refusal
            if not state.endswith("v2"):  # there it may be a retry of the last bump
                epoch = one.producer_epoch - 1
                assert one.init(version, producer_id=one.producer_id, producer_epoch=epoch) == refusal
        for half in ({"producer_id": one.producer_id}, {"producer_epoch": 1}):
            assert one.init(version, **half) == "invalid_request"
    assert standing(one, shared_topic) == before


def test_init_bumps_the_epoch_of_who_names_the_right_one(
    in_state: Callable[[str], RawProducer], shared_topic: str
) -> None:
    """KIP-360: a producer goes on after an error, and what was open is aborted."""
    one = in_state("ongoing")
    producer_id, producer_epoch = one.producer_id, one.producer_epoch
    assert one.init(5, producer_id=producer_id, producer_epoch=producer_epoch) == "none"
    assert one.describe() == ("Empty", producer_id, one.producer_epoch, [])
    bumped = one.producer_epoch
    assert bumped > producer_epoch
    assert one.produce((shared_topic, 0), b"x", producer_epoch=producer_epoch) == EPOCH
    assert one.add((shared_topic, 0)) == "none"
    assert one.produce((shared_topic, 0), b"after") == "none"
    one.finish(True)
    assert fetch(one.raw, (shared_topic, 0)).last_stable_offset <= ends(one.raw, (shared_topic, 0))[0][1]


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
@pytest.mark.parametrize("version", range(6))
def test_a_timeout_out_of_bounds(version: int, timeout_ms: int, raw: RawClient, topic: str) -> None:
    one = RawProducer(raw, topic)
    assert one.init(version, timeout_ms) == "invalid_transaction_timeout"
    assert one.describe()[0] == "transactional_id_not_found"
    assert one.init(version, 900_000) == "none"


@pytest.mark.parametrize("version", range(6))
def test_an_empty_transactional_id(version: int, raw: RawClient) -> None:
    assert RawProducer(raw, "").init(version) == "invalid_request"
