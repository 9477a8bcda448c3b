"""Incremental snapshots against a model of the database: whatever the schedule, the topic ends as the table.

a transaction   begins, changes rows, has its commit in the log, and is visible (that may take long:
                a synchronous standby); truncates, too
the connector   reads the log late, reads chunks, is killed and starts again at what it committed
"""

from __future__ import annotations

from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from moldau.connect.connectors.cdc.converting import UNCHANGED, CapturedColumn
from moldau.connect.connectors.cdc.envelope import Change, EnvelopeTable
from moldau.connect.connectors.cdc.postgres.chunks import Chunk
from moldau.connect.connectors.cdc.postgres.incremental import Incremental
from moldau.connect.connectors.cdc.postgres.pgoutput import Relation, RelationColumn
from moldau.connect.connectors.cdc.postgres.positions import Position
from moldau.connect.connectors.cdc.postgres.tables import SOURCE
from moldau.connect.connectors.cdc.postgres.transactions import Event, Followed
from moldau.connect.connectors.cdc.postgres.visibility import Visibility, visibility
from moldau.connect.schema import Schema, Type

INT = Schema(Type.INT32)
COLUMNS = [CapturedColumn("id", INT, int, None), CapturedColumn("n", INT, int, None)]
TABLE = EnvelopeTable("t", "t", COLUMNS, [0], SOURCE)
RELATION = Relation(
    7, "public", "t", "d", (RelationColumn("id", 23, -1, True), RelationColumn("n", 23, -1, False))
)
FOLLOWED = Followed(RELATION, TABLE, (0, 1))
KEYS = range(6)
Row = tuple[int, int]


class Model:
    """The database. A transaction is a list of (op, key, n); op c, u, d or t."""

    def __init__(self) -> None:
        self.next_xid = 100
        self.visible: dict[int, int] = {}
        """What everybody sees."""
        self.newest: dict[int, int] = {key: 0 for key in KEYS if key % 2 == 0}
        """With what is committed and not visible; transactions come one after the other in each row."""
        self.visible.update(self.newest)
        self.committed: list[tuple[int, list[tuple[str, int, int]]]] = []
        """Not visible, in the order of their commits."""
        self.open: set[int] = set()
        """Transactions that only run."""
        self.log: list[tuple[int, Any]] = []
        """(xid, changes), or (xid, a mark)."""
        self.time = 0.0

    def commit(self, changes: list[tuple[str, int, int]]) -> None:
        """A transaction's commit is in the log."""
        xid = self.next_xid
        self.next_xid += 1
        made = []
        for op, key, n in changes:
            if op == "t":
                self.newest.clear()
                made.append(("t", 0, 0))
            elif op == "d":
                if self.newest.pop(key, None) is not None:
                    made.append(("d", key, 0))
            else:
                made.append(("u" if key in self.newest else "c", key, n))
                self.newest[key] = n
        self.committed.append((xid, made))
        self.log.append((xid, made))

    def see(self, which: int) -> None:
        """A committed transaction is visible now; those that changed the same rows before are, too (they
        held the locks)."""
        xid, changes = self.committed.pop(which % len(self.committed))
        earlier = [each for each in self.committed if each[0] < xid and _touch(each[1], changes)]
        for each in earlier:
            self.see(self.committed.index(each))
        for op, key, n in changes:
            if op == "t":
                self.visible.clear()
            elif op == "d":
                self.visible.pop(key, None)
            else:
                self.visible[key] = n

    # What the connector asks.

    def read(self, followed: Followed, last_key: list[str | None] | None, count: int) -> Chunk:
        after = -1 if last_key is None else int(last_key[0] or 0)
        rows = sorted((key, n) for key, n in self.visible.items() if key > after)[:count]
        return Chunk(self.look(), [(str(key), str(n)) for key, n in rows])

    def look(self) -> Visibility:
        running = [str(xid) for xid, _ in self.committed] + [str(xid) for xid in self.open]
        xmin = min([self.next_xid, *map(int, running)])
        return visibility(f"{xmin}:{self.next_xid}:{','.join(running)}")

    def committing(self) -> set[int]:
        return {xid for xid, _ in self.committed}

    def mark(self, name: str) -> None:
        self.log.append((self.next_xid, name))
        self.next_xid += 1


def _touch(one: list[tuple[str, int, int]], other: list[tuple[str, int, int]]) -> bool:
    keys = {key for _, key, _ in one}
    return any(op == "t" or key in keys for op, key, _ in other) or any(op == "t" for op, _, _ in one)


class Connector:
    """Reads the log, a transaction at a time, and keeps what a compacted topic would have."""

    def __init__(self, model: Model, skipped: frozenset[str]) -> None:
        self.model, self.skipped = model, skipped
        self.topic: dict[int, int] = {}
        self.place, self.state = 0, ""
        self.start()

    def start(self) -> None:
        self.one = Incremental(self.model, lambda name: FOLLOWED, 2, lambda: self.model.time)
        self.one.orders.restore(self.state)

    def follow(self) -> None:
        """The next transaction of the log, delivered and committed together with the state."""
        if self.place >= len(self.model.log):
            return
        xid, what = self.model.log[self.place]
        self.place += 1
        if isinstance(what, str):
            made = self.one.signal((what, "snapshot-window-close", None))
            for change in made[1] if made else ():
                assert change.after is not None
                self.topic[change.after[0]] = change.after[1]
        else:
            for change in what:
                self._deliver(xid, *change)
        self.state = self.one.orders.state()

    def _deliver(self, xid: int, op: str, key: int, n: int) -> None:
        is_skipped = op in self.skipped
        after = None if op in "dt" else [key, n]
        change = Change(op, None, after, (), None if op == "t" else [key])
        self.one.see(Event(FOLLOWED, (change,), Position(1, 1, 1), None, is_skipped, xid=xid))
        if is_skipped:
            return
        if op == "t":
            self.topic.clear()
        elif op == "d":
            self.topic.pop(key, None)
        else:
            self.topic[key] = n


CHANGES = st.lists(
    st.tuples(st.sampled_from("uuuuddt"), st.sampled_from(list(KEYS)), st.integers(1, 1000)),
    min_size=1,
    max_size=3,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), CHANGES),
        st.tuples(st.just("see"), st.integers(0, 5)),
        st.tuples(st.just("follow"), st.none()),
        st.tuples(st.just("follow"), st.none()),
        st.tuples(st.just("read"), st.none()),
        st.tuples(st.just("open"), st.none()),
        st.tuples(st.just("kill"), st.none()),
        st.tuples(st.just("order"), st.none()),
        st.tuples(st.just("time"), st.none()),
    ),
    max_size=40,
)


def run(steps: list[tuple[str, Any]], skipped: frozenset[str]) -> tuple[Model, Connector]:
    model = Model()
    one = Connector(model, skipped)
    one.one.orders.waiting.append("public.t")
    one.state = one.one.orders.state()
    for what, given_ in steps:
        if what == "commit":
            model.commit(given_)
        elif what == "see" and model.committed:
            model.see(given_)
        elif what == "follow":
            one.follow()
        elif what == "read":
            one.one.read_next()
        elif what == "open":
            model.open.add(model.next_xid)
            model.next_xid += 1
        elif what == "kill":
            one.start()
        elif what == "order" and not one.one.orders.waiting:
            one.one.orders.waiting.append("public.t")
        model.time += 0.3
    for _ in range(60):
        while model.committed:
            model.see(0)
        model.time += 2
        one.one.read_next()
        while one.place < len(model.log):
            one.follow()
    return model, one


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_the_topic_ends_as_the_table(steps: list[tuple[str, Any]]) -> None:
    model, one = run(steps, frozenset())
    assert one.one.orders.waiting == []
    assert one.topic == model.newest
    event(f"{sum(each[0] == 'kill' for each in steps)} kills")


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_what_is_skipped_leaves_no_old_rows_behind(steps: list[tuple[str, Any]]) -> None:
    """With updates and TRUNCATE skipped, a new snapshot of a table that rests has all of it."""
    model, one = run(steps, frozenset("tu"))
    for key in list(one.topic):
        if key not in model.newest:
            del one.topic[key]  # truncated, which nobody is told
    if "order" in [each[0] for each in steps[-1:]]:
        return
    one.one.orders.waiting.append("public.t")
    for _ in range(20):
        model.time += 2
        one.one.read_next()
        while one.place < len(model.log):
            one.follow()
    assert one.topic == model.newest


def test_an_update_that_is_skipped_is_carried_into_the_row_that_was_read() -> None:
    """Between reading and mark: the row goes out as it is, though the update does not."""
    model = Model()
    one = Connector(model, frozenset("ut"))
    one.one.orders.waiting.append("public.t")
    one.one.read_next()
    mark = model.log.pop()
    model.commit([("u", 0, 5), ("d", 2, 0)])
    model.log.append(mark)
    model.see(0)
    for _ in range(2):
        one.follow()
    assert one.topic == {0: 5}


def test_a_change_that_was_delivered_before_it_is_visible() -> None:
    model = Model()
    one = Connector(model, frozenset())
    one.one.orders.waiting.append("public.t")
    one.one.read_next()
    one.follow()
    model.commit([("u", 4, 9)])
    one.follow()
    one.one.read_next()
    assert one.one.window is None, "the rows do not have what was delivered"
    model.see(0)
    model.time += 1
    one.one.read_next()
    one.follow()
    assert one.topic == {0: 0, 2: 0, 4: 9}


def test_numbers_of_transactions_go_round() -> None:
    seen = Visibility((1 << 32) + 5, (1 << 32) + 9, frozenset([(1 << 32) + 7]))
    assert [seen.sees(each) for each in (3, 4, 5, 6, 7, 8, 9)] == [True, True, True, True, False, True, False]
    assert seen.sees((1 << 32) - 1)
    assert not Visibility((1 << 32) - 3, (1 << 32) - 2, frozenset()).sees(1)


def test_values_that_were_not_logged_stay_as_they_were_read() -> None:
    model = Model()
    one = Connector(model, frozenset("u"))
    one.one.orders.waiting.append("public.t")
    one.one.read_next()
    change = Change("u", None, [0, UNCHANGED], (), [0])
    one.one.see(Event(FOLLOWED, (change,), Position(1, 1, 1), None, True, xid=model.next_xid))
    one.follow()
    assert one.topic[0] == 0


def test_what_was_delivered_before_a_restart_is_not_overwritten() -> None:
    """A restart forgets whose changes it has delivered: it waits for those that are being committed."""
    model = Model()
    one = Connector(model, frozenset())
    one.one.orders.waiting.append("public.t")
    model.commit([("u", 0, 9)])
    one.follow()
    one.start()
    for _ in range(5):
        one.one.read_next()
        assert one.one.window is None
        model.time += 2
    model.see(0)
    model.open.add(model.next_xid)  # only at work: it is not waited for without end
    model.next_xid += 1
    for _ in range(20):
        one.one.read_next()
        one.follow()
        model.time += 2
    assert one.topic == {0: 9, 2: 0, 4: 0}


def test_what_is_remembered_is_bounded_by_what_is_not_visible(monkeypatch: Any) -> None:
    """And the server is not asked with every change while a standby does not answer."""
    model = Model()
    one = Connector(model, frozenset())
    looks: list[Visibility] = []
    look = model.look
    monkeypatch.setattr(model, "look", lambda: looks.append(look()) or looks[-1])
    change = Change("u", None, [0, 1], (), [0])
    for xid in range(100, 30_100):
        model.next_xid = xid + 1
        one.one.see(Event(FOLLOWED, (change,), Position(1, 1, 1), None, False, xid=xid))
        model.time += 0.001
    assert len(one.one._delivered) <= 12_000
    assert 1 <= len(looks) <= 30
