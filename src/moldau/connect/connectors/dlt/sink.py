"""A sink into any destination of dlt: connector.class=DltSink, dlt.destination=duckdb (snowflake, bigquery,
filesystem, …)

A flush is one load package: a table a topic, and beside them how far each topic partition has come:

    moldau_positions | connector | topic | partition | next_offset |

    moldau_owners    | connector | topic | partition | owner |

A start writes itself into the second table as the owner of its partitions, and asks the first where to go on;
before each load it looks whether it still is the owner, so that a task that is thought dead, and is not,
loads nothing more (but for a load that is under way: no destination of dlt's compares and loads in one).
A package is loaded file by file, so that a crash within a load may
leave rows whose
position is not there yet, and which come again: with `write_disposition=merge` they replace themselves
(exactly once),
with `append` they are there twice.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Mapping, Sequence, Set
from typing import Any

import dlt
import orjson
from dlt.common.destination import Destination
from dlt.common.destination.exceptions import DestinationException
from dlt.common.exceptions import TransientException
from dlt.pipeline.exceptions import PipelineStepFailed

from moldau.connect.batch import Batch, TopicPartition
from moldau.connect.errors import BadRecord, ConnectError, Retriable
from moldau.connect.settings import REQUIRED, Importance, Setting, SettingType
from moldau.connect.sink import Sink, SinkContext
from moldau.connect.values import python_values

POSITIONS = "moldau_positions"
OWNERS = "moldau_owners"
_WRITING = "Writing"
_PLACE = ("_moldau_topic", "_moldau_partition", "_moldau_offset")


def _check_object(text: Any) -> str | None:
    try:
        parsed = orjson.loads(text or "{}")
    except ValueError as problem:
        return f"is no JSON: {problem}"
    return None if isinstance(parsed, dict) else "is no JSON object"


class DltSink(Sink):
    """Topics into tables of a destination."""

    settings = (
        Setting(
            "dlt.destination",
            SettingType.STRING,
            "duckdb, postgres, snowflake, bigquery, filesystem, … or module.Class of one.",
            REQUIRED,
            Importance.HIGH,
            _WRITING,
        ),
        Setting(
            "dlt.destination.arguments",
            SettingType.PASSWORD,
            'What it is made with, a JSON object: {"credentials": "postgresql://…"}. (Or secrets.toml.)',
            None,
            Importance.HIGH,
            _WRITING,
            check=_check_object,
        ),
        Setting(
            "dlt.dataset", SettingType.STRING, "The schema or folder.", "kafka", Importance.HIGH, _WRITING
        ),
        Setting(
            "table.name.format",
            SettingType.STRING,
            "The table; ${topic} stands for the topic.",
            "${topic}",
            Importance.MEDIUM,
            _WRITING,
        ),
        Setting(
            "write_disposition",
            SettingType.STRING,
            "append: each record is a row. merge: it replaces the row of its key; without key.columns, "
            "itself.",
            "append",
            Importance.HIGH,
            _WRITING,
            choices=("append", "merge"),
        ),
        Setting(
            "key.columns",
            SettingType.LIST,
            "With merge: the columns that make a row the same row.",
            [],
            Importance.MEDIUM,
            _WRITING,
        ),
        Setting(
            "max.table.nesting",
            SettingType.INT,
            "Lists within records become tables of their own down to this depth; 0: they stay JSON.",
            0,
            Importance.LOW,
            _WRITING,
        ),
    )

    def start(self, settings: Mapping[str, Any], context: SinkContext) -> None:
        """Nothing is asked yet. ConnectError."""
        super().start(settings, context)
        arguments = orjson.loads(settings["dlt.destination.arguments"] or "{}")
        # A folder of this start alone: a package that an earlier one left behind is not loaded, its
        # records come again.
        self._folder = tempfile.mkdtemp(prefix="moldau-dlt-")
        try:
            destination = Destination.from_reference(settings["dlt.destination"], **arguments)
            self._pipeline = dlt.pipeline(
                pipeline_name=_plain(context.connector),
                pipelines_dir=self._folder,
                destination=destination,
                dataset_name=settings["dlt.dataset"],
            )
        except Exception as problem:
            raise ConnectError(f"dlt.destination={settings['dlt.destination']}: {problem}") from problem
        self._merge = settings["write_disposition"] == "merge"
        self._rows: dict[str, list[Any]] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._owner = uuid.uuid4().hex
        self._owned: set[TopicPartition] = set()

    def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """What the table of positions has. Retriable, ConnectError: another task has a partition."""
        wanted = set(partitions)
        self._own(wanted)
        found = {each: int(offset) for each, offset in self._stored(POSITIONS, "next_offset").items()}
        return {each: offset for each, offset in found.items() if each in wanted and offset >= 0}

    def closed(self, partitions: Sequence[TopicPartition]) -> None:
        """Others own these from now on."""
        self._owned -= set(partitions)

    def _own(self, partitions: Set[TopicPartition]) -> None:
        """Become the owner of those that are new; of the others this task is to be it still: taking them
        again would take them from whoever has them now."""
        self._check_owner(partitions & self._owned)
        new = partitions - self._owned
        if new:
            rows = [{**self._named(each), "owner": self._owner} for each in sorted(new)]
            self._run([self._of_places(OWNERS, rows)])
            self._owned |= new

    def _check_owner(self, partitions: Set[TopicPartition]) -> None:
        if not partitions:
            return
        owners = self._stored(OWNERS, "owner")
        for each in sorted(partitions):
            if owners.get(each) != self._owner:
                raise ConnectError(
                    f"another task writes {each.topic}-{each.partition} into dataset "
                    f"{self.config['dlt.dataset']} now"
                )

    def set_positions(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """An administrator's word; -1 stands for nothing."""
        self._load([], {each: -1 if offset is None else offset for each, offset in positions.items()})

    def write(self, batch: Batch, number: int) -> None:
        """Stage. BadRecord."""
        assert batch.origin is not None
        assert batch.offsets is not None
        table = self.config["table.name.format"].replace("${topic}", batch.topic)
        self._rows.setdefault(table, []).extend(self._rows_of(batch))
        self._ends[batch.origin] = batch.offsets[-1].as_py() + 1

    def flush(self) -> None:
        """Load what is staged, as one package. Retriable, ConnectError."""
        rows, ends = self._rows, self._ends
        self._rows, self._ends = {}, {}
        if ends:
            self._check_owner(self._owned & ends.keys())
            self._load([self._resource(table, found) for table, found in rows.items() if found], ends)

    def check(self, settings: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        """Contradictions."""
        if settings["key.columns"] and settings["write_disposition"] != "merge":
            return {"key.columns": ["key.columns has no meaning with write_disposition=append"]}
        return {}

    def stop(self) -> None:
        """Remove the folder of this start."""
        if hasattr(self, "_folder"):
            shutil.rmtree(self._folder, ignore_errors=True)

    def _rows_of(self, batch: Batch) -> list[dict[str, Any]]:
        """Rows as dictionaries: a table may get records with a schema and without, which Arrow's way into
        dlt cannot."""
        rows = []
        for row, value in enumerate(python_values(batch.value)):
            if isinstance(value, dict):
                rows.append({**value, **self._place(batch, row)})
            elif value is not None:
                problem = BadRecord(
                    "the value is no record: a table needs fields (HoistField makes one)", row
                )
                self.context.bad_record(batch, row, problem)
        return rows

    def _place(self, batch: Batch, row: int) -> dict[str, Any]:
        assert batch.origin is not None
        assert batch.offsets is not None
        if not self._by_place:
            return {}
        return dict(zip(_PLACE, (*batch.origin, batch.offsets[row].as_py()), strict=True))

    @property
    def _by_place(self) -> bool:
        """Rows merge by where their record stands in Kafka."""
        return self._merge and not self.config["key.columns"]

    def _resource(self, table: str, rows: list[Any]) -> Any:
        keys = self.config["key.columns"] or list(_PLACE)
        make: Any = dlt.resource
        return make(
            rows,
            name=table,
            write_disposition="merge" if self._merge else "append",
            primary_key=keys if self._merge else None,
            max_table_nesting=self.config["max.table.nesting"],
        )

    def _load(self, resources: list[Any], ends: Mapping[TopicPartition, int]) -> None:
        places = [{**self._named(each), "next_offset": end} for each, end in ends.items()]
        self._run([*resources, self._of_places(POSITIONS, places)])

    def _named(self, each: TopicPartition) -> dict[str, Any]:
        return {"connector": self.context.connector, "topic": each.topic, "partition": each.partition}

    def _of_places(self, table: str, rows: list[dict[str, Any]]) -> Any:
        make: Any = dlt.resource
        keys = ["connector", "topic", "partition"]
        return make(rows, name=table, write_disposition="merge", primary_key=keys)

    def _run(self, resources: list[Any]) -> None:
        try:
            self._pipeline.run(resources).raise_on_failed_jobs()
        except PipelineStepFailed as problem:
            self._pipeline.abort_packages()
            raise _told(problem) from problem

    def _stored(self, name: str, column: str) -> dict[TopicPartition, Any]:
        """A column of a table of places, of this connector."""
        try:
            self._pipeline.sync_destination()
            schema = self._pipeline.default_schema_name
            if schema is None or name not in self._pipeline.schemas[schema].tables:
                return {}
            with self._pipeline.sql_client() as client:
                table = client.make_qualified_table_name(name)
                columns = f"topic, partition, {column}"
                # Names of connectors are quoted nowhere else: compared here, and not by the destination.
                found = client.execute_sql(f"SELECT connector, {columns} FROM {table}") or []
        except PipelineStepFailed as problem:
            raise _told(problem) from problem
        except DestinationException as problem:
            raise (Retriable if isinstance(problem, TransientException) else ConnectError)(
                f"dlt.destination={self.config['dlt.destination']}: {problem}"
            ) from problem
        return {
            TopicPartition(topic, int(partition)): value
            for connector, topic, partition, value in found
            if connector == self.context.connector
        }


def _told(problem: PipelineStepFailed) -> ConnectError:
    cause: BaseException = problem
    while cause.__cause__ is not None:
        cause = cause.__cause__
    sentence = f"dlt ({problem.step}): {cause or problem}"
    if isinstance(cause, (TransientException, OSError)) or isinstance(problem.exception, TransientException):
        return Retriable(sentence)
    return ConnectError(sentence)


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name)
