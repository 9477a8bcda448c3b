"""Target consumers: each record is in the store exactly once, whoever is killed, woken up or away."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message
from confluent_kafka.admin import AdminClient
from kit_postgres import Postgres, running_postgres
from kit_running import Program, running, wait_until, write
from torture.cluster_proxy import Cable

from moldau.kit.duplicates import Duplicates, header
from moldau.kit.errors import BadCall, Fenced, KitError
from moldau.kit.target import Claim, OffsetRow, SqliteStore, TargetLoop
from moldau.testing import Broker

MakeTopic = Callable[..., str]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


class Database:
    """SQLite or PostgreSQL with a table of records, and a way to look into it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.execute("DROP TABLE IF EXISTS records")
        self.execute("DROP TABLE IF EXISTS moldau_offsets")
        self.execute("DROP TABLE IF EXISTS moldau_seen")
        self.execute("CREATE TABLE records (value TEXT)")

    def execute(self, statement: str) -> list[Any]:
        if "://" in self.url:
            import psycopg

            with psycopg.connect(self.url.replace("+psycopg", "")) as connection:
                found = connection.execute(statement)
                return found.fetchall() if found.description else []
        with closing(sqlite3.connect(self.url, timeout=30)) as connection, connection:
            return connection.execute(statement).fetchall()

    def values(self) -> list[str]:
        return [row[0] for row in self.execute("SELECT value FROM records")]

    def store(self) -> Any:
        if "://" in self.url:
            from moldau.kit.target.sqlalchemy import SqlAlchemyStore

            return SqlAlchemyStore(self.url)
        return SqliteStore(self.url)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param == "sqlite":
        return Database(str(tmp_path / "target.db"))
    return Database(request.getfixturevalue("postgres").url)


@pytest.fixture
def sqlite(tmp_path: Path) -> Database:
    return Database(str(tmp_path / "target.db"))


def insert(connection: Any, records: list[Message]) -> None:
    """A handler for both stores."""
    for one in records:
        value = (one.value() or b"").decode()
        statement = f"INSERT INTO records VALUES ('{value}')"
        getattr(connection, "exec_driver_sql", connection.execute)(statement)
        if value.startswith("poison"):
            raise ValueError("no number")


def make_loop(broker: Broker, topic: str, store: Any, **more: Any) -> TargetLoop:
    config = {"heartbeat.interval.ms": 200, "reconnect.backoff.max.ms": 200, **more.pop("config", {})}
    return TargetLoop(
        topic,
        group="loader",
        store=store,
        bootstrap_servers=more.pop("bootstrap", broker.bootstrap_servers),
        config=config,
        **more,
    )


def fill(loop: TargetLoop, database: Database, count: int, handler: Any = insert) -> None:
    """Run a loop until so many records are in the database."""
    with running(loop, lambda: loop.run(handler)) as raised:
        wait_until(lambda: raised or len(database.values()) >= count, f"{count} records")
    if raised:
        raise raised[0]


def test_killed_writers_that_take_over_from_each_other_write_each_record_once(
    database: Database, shared_broker: Broker, made_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, count = made_topic(2), 400
    write(shared_broker.bootstrap_servers, topic, [f"r{n}" for n in range(count)], 2)
    programs = [
        Program(tmp_path / name, "target", shared_broker.bootstrap_servers, topic, database.url)
        for name in ("one", "two")
    ]
    for program in programs:
        program.path.parent.mkdir()
    try:
        programs[0].start().wait_for(3)
        programs[1].start()
        programs[0].kill()  # within a transaction, or between two
        programs[1].wait_for(3)
        programs[0].start()
        programs[1].kill()
        wait_until(lambda: len(database.values()) >= count, "all is there")
    finally:
        for program in programs:
            program.kill()
    assert sorted(database.values()) == sorted(f"r{n}" for n in range(count))


def test_an_old_owner_that_wakes_up_in_its_transaction_is_fenced(
    database: Database, shared_broker: Broker, made_topic: MakeTopic
) -> None:
    topic = made_topic()
    write(shared_broker.bootstrap_servers, topic, ["a", "b"])
    store = database.store()
    place = (topic, 0)
    old = store.claim("loader", {place: lambda: Claim(0, 1, "")})[place]
    new = database.store().claim("loader", {place: lambda: Claim(0, 1, "")})[place]
    assert (old.number, new.number) == (1, 2)
    with pytest.raises(Fenced, match="taken over"):
        store.write("loader", [OffsetRow(topic, 0, 2, old.number)], lambda handle: insert(handle, []))
    # A loop that is fenced asks the store again, and goes on while the group says that it is the owner.
    stolen = threading.Event()

    def steal_once(connection: Any, records: list[Message]) -> None:
        insert(connection, records)

    loop = make_loop(shared_broker, topic, store)
    with running(loop, lambda: loop.run(steal_once)) as raised:
        wait_until(lambda: len(database.values()) == 2, "it writes")
        database.store().claim("loader", {place: lambda: Claim(0, 1, "")})
        stolen.set()
        write(shared_broker.bootstrap_servers, topic, ["c"])
        wait_until(lambda: len(database.values()) == 3, "it goes on")
    assert raised == []
    assert sorted(database.values()) == ["a", "b", "c"]


def test_a_loop_that_is_fenced_all_the_time_ends_with_a_sentence(
    sqlite: Database, shared_broker: Broker, made_topic: MakeTopic
) -> None:
    topic = made_topic()
    write(shared_broker.bootstrap_servers, topic, ["a"])

    class Contested(SqliteStore):
        def write(self, *_: Any) -> None:
            raise Fenced("taken over by another process")

    with pytest.raises(Fenced, match="process of another cluster"):
        fill(make_loop(shared_broker, topic, Contested(sqlite.url)), sqlite, 1)


def test_a_commit_whose_answer_is_lost_is_not_written_twice(
    sqlite: Database, shared_broker: Broker, made_topic: MakeTopic
) -> None:
    topic = made_topic()
    write(shared_broker.bootstrap_servers, topic, [str(n) for n in range(30)])

    class Deaf(SqliteStore):
        calls = 0

        def write(self, *arguments: Any) -> None:
            super().write(*arguments)
            self.calls += 1
            if self.calls == 2:
                error = sqlite3.OperationalError("the connection broke")
                error.sqlite_errorcode = sqlite3.SQLITE_IOERR
                raise error

    fill(make_loop(shared_broker, topic, Deaf(sqlite.url), batch=5), sqlite, 30)
    assert sorted(sqlite.values(), key=int) == [str(n) for n in range(30)]


def test_a_postgresql_that_crashes_is_waited_for(
    postgres: Postgres, shared_broker: Broker, made_topic: MakeTopic
) -> None:
    topic, database = made_topic(), Database(postgres.url)
    write(shared_broker.bootstrap_servers, topic, [f"a{n}" for n in range(100)])
    loop = make_loop(shared_broker, topic, database.store(), batch=10)
    crashed = threading.Event()

    def crash(connection: Any, records: list[Message]) -> None:
        insert(connection, records)
        if not crashed.is_set():
            crashed.set()
            postgres.stop()  # in the middle of a transaction
            postgres.start()

    with running(loop, lambda: loop.run(crash)) as raised:
        wait_until(crashed.is_set, "it has crashed")
        wait_until(lambda: loop.written_count == 100, "all is written")
    assert raised == []
    assert sorted(database.values()) == sorted(f"a{n}" for n in range(100))


def test_a_full_disk_is_waited_for_and_then_said(
    sqlite: Database, shared_broker: Broker, made_topic: MakeTopic
) -> None:
    topic = made_topic()
    write(shared_broker.bootstrap_servers, topic, ["x" * 900 + str(n) for n in range(200)])
    limit = {"pages": 20}
    connections: list[sqlite3.Connection] = []

    def connect() -> sqlite3.Connection:
        connections.append(sqlite3.connect(sqlite.url, timeout=30, check_same_thread=False))
        connections[-1].execute(f"PRAGMA max_page_count = {limit['pages']}")
        return connections[-1]

    with pytest.raises(KitError, match=r"database or disk is full.*start again when it works"):
        fill(make_loop(shared_broker, topic, SqliteStore(connect), batch=10, retry_seconds=1.0), sqlite, 200)
    assert 0 < len(sqlite.values()) < 200
    limit["pages"] = 10_000
    fill(make_loop(shared_broker, topic, SqliteStore(connect)), sqlite, 200)
    assert len(sqlite.values()) == len(set(sqlite.values())) == 200


def test_a_killed_broker_and_a_stalled_network_interrupt_only(
    sqlite: Database, cable_and_broker: tuple[Cable, Broker], topic: str
) -> None:
    cable, broker = cable_and_broker
    broker.bootstrap_servers = cable.address
    broker.create_topic(topic)
    write(cable.address, topic, [f"a{n}" for n in range(100)])
    config = {"socket.timeout.ms": 1000}
    loop = make_loop(broker, topic, sqlite.store(), batch=5, bootstrap=cable.address, config=config)
    with running(loop, lambda: loop.run(insert)) as raised:
        wait_until(lambda: len(sqlite.values()) >= 20, "it writes")
        broker.kill()
        broker.restart()
        wait_until(lambda: len(sqlite.values()) == 100, "it goes on")
        cable.cut()
        threading.Event().wait(1.5)  # longer than socket.timeout.ms: requests fail
        cable.heal()
        write(cable.address, topic, [f"b{n}" for n in range(20)])
        wait_until(lambda: len(sqlite.values()) == 120, "it goes on after the stall")
    assert raised == []
    assert len(set(sqlite.values())) == 120


def test_poison_stops_or_is_skipped_alone(
    database: Database, shared_broker: Broker, made_topic: MakeTopic
) -> None:
    topic = made_topic()
    write(shared_broker.bootstrap_servers, topic, ["a", "b", "poison", "c"])
    with pytest.raises(ValueError, match="no number") as raised:
        fill(make_loop(shared_broker, topic, database.store()), database, 4)
    assert f"while writing {topic}[0]@" in raised.value.__notes__[0]
    assert "poison" not in database.values()
    refused: list[str] = []
    loop = make_loop(
        shared_broker, topic, database.store(), on_error=lambda record, error: refused.append(str(error))
    )
    fill(loop, database, 3)
    assert sorted(database.values()) == ["a", "b", "c"]
    assert (refused, loop.skipped_count) == (["no number"], 1)


def test_duplicates_by_id_are_dropped_across_restarts_and_the_window_is_bounded(
    database: Database, shared_broker: Broker, made_topic: MakeTopic
) -> None:
    topic = made_topic()

    def load(values: list[str], count: int) -> Duplicates:
        write(shared_broker.bootstrap_servers, topic, values)
        filter_ = Duplicates(lambda record: record.value(), window=50)
        fill(make_loop(shared_broker, topic, database.store(), duplicates=filter_), database, count)
        return filter_

    load(["a", "b", "a"], 2)
    second = load(["b", "c"], 3)
    assert second.dropped_count == 1
    load([str(n) for n in range(60)], 63)
    load(["a", "59", "end"], 65)  # "a" lies outside the window, "59" inside
    assert sorted(database.values()) == sorted(["a", "a", "b", "c", "end", *(str(n) for n in range(60))])
    assert database.execute("SELECT count(*) FROM moldau_seen")[0][0] <= 51


def test_a_filter_in_memory_remembers_only_what_was_handled() -> None:
    def record(number: int, value: bytes | None) -> Message:
        return Message(topic="t", partition=0, offset=number, headers=[("id", value)] if value else None)

    filter_ = Duplicates(header("id"), window=3)
    records = [record(0, b"a"), record(1, b"b"), record(2, b"a"), record(3, None), record(4, None)]
    with pytest.raises(ZeroDivisionError), filter_.filter(records):
        raise ZeroDivisionError
    with filter_.filter(records) as fresh:
        assert [one.offset() for one in fresh] == [0, 1, 3, 4]
    with filter_.filter([record(5, b"c"), record(6, b"d"), record(7, b"b")]) as fresh:
        assert [one.offset() for one in fresh] == [5, 6]
    with filter_.filter([record(8, b"a")]) as fresh:
        assert fresh, "it is outside the window"
    with pytest.raises(BadCall, match="must return bytes"), Duplicates(lambda _: 1.5).filter(records):  # type: ignore[arg-type, return-value]
        pass


def test_what_the_topic_no_longer_has_is_said(
    sqlite: Database, shared_broker: Broker, made_topic: MakeTopic
) -> None:
    topic = made_topic()
    write(shared_broker.bootstrap_servers, topic, ["a", "b", "c"])
    fill(make_loop(shared_broker, topic, sqlite.store()), sqlite, 3)
    sqlite.execute("UPDATE moldau_offsets SET next_offset = 7")
    with pytest.raises(KitError, match="ends at 3, before the store's offset 7"):
        fill(make_loop(shared_broker, topic, sqlite.store()), sqlite, 4)
    admin = AdminClient({"bootstrap.servers": shared_broker.bootstrap_servers})
    admin.delete_topics([topic])[topic].result(60)
    shared_broker.create_topic(topic)
    with pytest.raises(KitError, match="was deleted and made anew"):
        fill(make_loop(shared_broker, topic, sqlite.store()), sqlite, 4)
    sqlite.execute("UPDATE moldau_offsets SET next_offset = -1, topic_id = ''")
    with pytest.raises(KitError, match="records from -1 on were removed"):
        fill(make_loop(shared_broker, topic, sqlite.store()), sqlite, 4)


def test_start_at_the_end_is_fixed_before_the_first_record(
    sqlite: Database, shared_broker: Broker, made_topic: MakeTopic
) -> None:
    topic = made_topic()
    write(shared_broker.bootstrap_servers, topic, ["old"])
    loop = make_loop(shared_broker, topic, sqlite.store(), start="end")
    with running(loop, lambda: loop.run(insert)):
        wait_until(
            lambda: (
                sqlite.execute("SELECT name FROM sqlite_master WHERE name = 'moldau_offsets'")
                and sqlite.execute("SELECT next_offset FROM moldau_offsets") == [(1,)]
            ),
            "the end is in the store",
        )
    write(shared_broker.bootstrap_servers, topic, ["new"])  # while nobody reads
    fill(make_loop(shared_broker, topic, sqlite.store(), start="end"), sqlite, 1)
    assert sqlite.values() == ["new"]


class FileStore:
    """A store of one's own: a JSON file that is replaced as a whole, here with coroutine functions."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _load(self) -> dict[str, Any]:
        return json.loads(self.path.read_text()) if self.path.exists() else {"offsets": {}, "data": []}

    def _save(self, state: dict[str, Any]) -> None:
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(state))
        new.replace(self.path)

    async def claim(self, group: str, first: dict[Any, Callable[[], Claim]]) -> dict[Any, Claim]:
        state, claims = self._load(), {}
        for place, make in first.items():
            found = state["offsets"].get(str(place))
            claims[place] = make() if found is None else Claim(found[0], found[1] + 1, found[2])
            state["offsets"][str(place)] = claims[place]
        self._save(state)
        return claims

    async def write(self, group: str, rows: list[OffsetRow], work: Callable[[Any], Any]) -> None:
        state = self._load()
        for row in rows:
            found = state["offsets"][str((row.topic, row.partition))]
            if found[1] != row.claim:
                raise Fenced(f"{row.topic}[{row.partition}] has been taken over")
            found[0] = row.next_offset
        await work(state["data"])
        self._save(state)

    def may_pass(self, error: BaseException) -> bool:
        return isinstance(error, OSError)


def test_a_store_of_ones_own_in_asyncio(shared_broker: Broker, made_topic: MakeTopic, tmp_path: Path) -> None:
    topic = made_topic()
    write(shared_broker.bootstrap_servers, topic, [str(n) for n in range(40)])
    store = FileStore(tmp_path / "target.json")

    async def main() -> None:
        loop = make_loop(shared_broker, topic, store, batch=7)

        async def write_them(data: list[str], records: list[Message]) -> None:
            await asyncio.sleep(0)
            data.extend((one.value() or b"").decode() for one in records)
            if "39" in data:
                loop.stop()

        await loop.run_async(write_them)

    asyncio.run(main())
    assert json.loads(store.path.read_text())["data"] == [str(n) for n in range(40)]
    with pytest.raises(BadCall, match="run_async"):
        make_loop(shared_broker, topic, FileStore(tmp_path / "x")).run(insert)


def test_bad_calls_of_a_target_get_a_sentence(
    sqlite: Database, shared_broker: Broker, made_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = made_topic()
    write(shared_broker.bootstrap_servers, topic, ["a"])

    def commits(connection: sqlite3.Connection, records: list[Message]) -> None:
        connection.commit()

    with pytest.raises(BadCall, match="ended the transaction by itself"):
        fill(make_loop(shared_broker, topic, sqlite.store()), sqlite, 1, commits)
    with pytest.raises(BadCall, match="under the name of a group"):
        TargetLoop("t", group="", store=sqlite.store(), bootstrap_servers="h:1")
    with pytest.raises(BadCall, match="offsets lie in the store"):
        make_loop(shared_broker, topic, sqlite.store(), config={"enable.auto.commit": True})
    with pytest.raises(BadCall, match="cannot keep ids"):
        make_loop(shared_broker, topic, FileStore(tmp_path), duplicates=Duplicates(lambda _: None))
