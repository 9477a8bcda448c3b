"""PostgreSQL, and what else SQLAlchemy connects to, as a target (the extra `sqlalchemy`, and a driver).

The rows of the claims are locked (SELECT ... FOR UPDATE) before the handler writes: a new owner's claim waits
for the transaction of the old one, which then either has ended or is refused. Where a database has no such
lock, the last statement of a write still checks the claim.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.kit.errors import Fenced, KitError
from moldau.kit.group_reader import Partition
from moldau.kit.target.store import Claim, OffsetRow, SeenRow

try:
    import sqlalchemy as sa
    from sqlalchemy import exc
except ImportError as missing:
    raise KitError(
        f"SQLAlchemy is not installed ({missing}): pip install 'moldau[sqlalchemy]', and a driver"
    ) from None

_IDS_A_QUERY = 500
_MAKE_TRIES = 3

_tables = sa.MetaData()
_offsets = sa.Table(
    "moldau_offsets",
    _tables,
    sa.Column("consumer_group", sa.String(255), primary_key=True),
    sa.Column("topic", sa.String(249), primary_key=True),
    sa.Column("partition_number", sa.Integer, primary_key=True),
    sa.Column("next_offset", sa.BigInteger, nullable=False),
    sa.Column("claim", sa.BigInteger, nullable=False),
    sa.Column("topic_id", sa.String(40), nullable=False),
)
_seen = sa.Table(
    "moldau_seen",
    _tables,
    sa.Column("consumer_group", sa.String(255), primary_key=True),
    sa.Column("record_id", sa.String(40), primary_key=True),
    sa.Column("topic", sa.String(249), nullable=False),
    sa.Column("partition_number", sa.Integer, nullable=False),
    sa.Column("record_offset", sa.BigInteger, nullable=False),
    sa.Index("moldau_seen_place", "consumer_group", "topic", "partition_number", "record_offset"),
)


class SqlAlchemyStore:
    """A database behind an engine, or a URL of one. The handler gets a Connection inside a transaction."""

    def __init__(self, engine: Any) -> None:
        self._engine = sa.create_engine(engine, pool_pre_ping=True) if isinstance(engine, str) else engine
        self._made = False

    def _make_tables(self) -> None:
        for number in range(_MAKE_TRIES):
            try:
                _tables.create_all(self._engine)
                break
            except exc.DBAPIError:  # another process has just made them
                if number == _MAKE_TRIES - 1:
                    raise
        self._made = True

    def claim(self, group: str, first: dict[Partition, Callable[[], Claim]]) -> dict[Partition, Claim]:
        """Take partitions (store.py)."""
        if not self._made:
            self._make_tables()
        with self._engine.begin() as connection:
            return {place: self._claim_one(connection, group, place, first[place]) for place in sorted(first)}

    def _claim_one(self, connection: Any, group: str, place: Partition, make: Callable[[], Claim]) -> Claim:
        here = _at(_offsets, group, *place)
        columns = _offsets.c.next_offset, _offsets.c.claim, _offsets.c.topic_id
        found = connection.execute(sa.select(*columns).where(here).with_for_update()).one_or_none()
        if found is None:
            new = make()
            connection.execute(sa.insert(_offsets).values((group, *place, *new)))
            return new
        claim = Claim(found[0], found[1] + 1, found[2])
        connection.execute(sa.update(_offsets).where(here).values(claim=claim.number))
        return claim

    def write(self, group: str, rows: list[OffsetRow], work: Callable[[Any], Any]) -> None:
        """Write under the claims (store.py)."""
        with self._engine.begin() as connection:
            for row in sorted(rows):
                here = _at(_offsets, group, row.topic, row.partition)
                query = sa.select(_offsets.c.claim).where(here).with_for_update()
                if connection.execute(query).scalar_one_or_none() != row.claim:
                    raise _fenced(row)
            work(connection)
            for row in sorted(rows):
                here = _at(_offsets, group, row.topic, row.partition) & (_offsets.c.claim == row.claim)
                done = connection.execute(sa.update(_offsets).where(here).values(next_offset=row.next_offset))
                if done.rowcount != 1:
                    raise _fenced(row)

    def seen(self, handle: Any, group: str, ids: list[str]) -> set[str]:
        """Those of the ids that are known (store.py)."""
        known: set[str] = set()
        for at in range(0, len(ids), _IDS_A_QUERY):
            some = _seen.c.record_id.in_(ids[at : at + _IDS_A_QUERY])
            query = sa.select(_seen.c.record_id).where(_seen.c.consumer_group == group, some)
            known.update(handle.execute(query).scalars())
        return known

    def remember(self, handle: Any, group: str, rows: list[SeenRow], window: int) -> None:
        """Keep ids for a while (store.py)."""
        names = [column.name for column in _seen.columns]
        handle.execute(sa.insert(_seen), [dict(zip(names, (group, *row), strict=True)) for row in rows])
        for (topic, partition), offset in {(row.topic, row.partition): row.offset for row in rows}.items():
            old = _seen.c.record_offset <= offset - window
            handle.execute(sa.delete(_seen).where(_at(_seen, group, topic, partition), old))

    def may_pass(self, error: BaseException) -> bool:
        """Away, busy, deadlocked, full, two writers of an id: yes. A wrong statement or value: no."""
        if isinstance(error, exc.IntegrityError):
            return "moldau_seen" in str(error) or "moldau_offsets" in str(error)
        if isinstance(error, exc.DBAPIError) and error.connection_invalidated:
            return True
        return isinstance(error, exc.OperationalError | exc.InterfaceError | exc.TimeoutError)

    def close(self) -> None:
        """Close the engine's connections."""
        self._engine.dispose()


def _at(table: Any, group: str, topic: str, partition: int) -> Any:
    return sa.and_(
        table.c.consumer_group == group, table.c.topic == topic, table.c.partition_number == partition
    )


def _fenced(row: OffsetRow) -> Fenced:
    return Fenced(f"{row.topic}[{row.partition}] has been taken over by another process")
