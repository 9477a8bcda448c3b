"""A source that runs a resource of dlt again and again: connector.class=DltSource

    dlt.source=rest_api            dlt.arguments={"config": {"client": …, "resources": […]}}
    dlt.source=sql_database        dlt.arguments={"credentials": "postgresql://…", "table_names": ["orders"]}
    dlt.source=my_module:source    a function of one's own, or a verified source

A partition is a resource, and its offset dlt's state *after a whole run*: only then has a cursor passed
all that came
before it, since nothing says in which order a resource yields rows. So a run is one transaction of
Kafka's, in which
records and state are committed: a run that is interrupted is done again, and none of its records were ever
seen.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from moldau.connect.connectors.dlt.records import batches_of
from moldau.connect.connectors.dlt.running import Item, made_source, run_resource, state_of, state_text
from moldau.connect.errors import ConnectError, Retriable
from moldau.connect.settings import REQUIRED, Importance, Setting, SettingType
from moldau.connect.source import Read, Source, SourceContext, SourceOffset, SourcePartition

_READING = "Reading"


def _check_arguments(text: Any) -> str | None:
    try:
        arguments_of(text)
    except ValueError as problem:
        return str(problem)
    return None


def arguments_of(text: str | None) -> dict[str, Any]:
    """The arguments of a source's function. ValueError."""
    try:
        arguments = orjson.loads(text or "{}")
    except ValueError as problem:
        raise ValueError(f"dlt.arguments is no JSON: {problem}") from None
    if not isinstance(arguments, dict):
        raise ValueError("dlt.arguments is no JSON object")
    return arguments


class DltSource(Source):
    """Any dlt resource."""

    ends_transactions = True
    settings = (
        Setting(
            "dlt.source",
            SettingType.STRING,
            "module:function of a dlt source or resource; or rest_api, sql_database, filesystem.",
            REQUIRED,
            Importance.HIGH,
            _READING,
        ),
        Setting(
            "dlt.arguments",
            SettingType.PASSWORD,
            "What the function is called with: a JSON object. (dlt's own config.toml and secrets.toml work "
            "too.)",
            None,
            Importance.HIGH,
            _READING,
            check=_check_arguments,
        ),
        Setting(
            "dlt.resources",
            SettingType.LIST,
            "Which resources to read; none named: all that the source selects.",
            [],
            Importance.MEDIUM,
            _READING,
        ),
        Setting(
            "topic.prefix",
            SettingType.STRING,
            "Before the name of the table, which is the topic.",
            "",
            Importance.MEDIUM,
            _READING,
        ),
        Setting(
            "key.fields",
            SettingType.LIST,
            "Fields of a record that are its key; none named: the resource's primary key.",
            [],
            Importance.MEDIUM,
            _READING,
        ),
        Setting(
            "dlt.interval.ms",
            SettingType.LONG,
            "How long to wait between two runs of a resource.",
            60_000,
            Importance.MEDIUM,
            _READING,
        ),
    )

    def start(self, settings: Mapping[str, Any], context: SourceContext) -> None:
        """Imports; calls nothing yet."""
        super().start(settings, context)
        self._arguments = arguments_of(settings["dlt.arguments"])

    def partitions(self) -> Sequence[SourcePartition]:
        """The resources. ConnectError."""
        found = list(self._made().selected_resources)
        wanted = self.config["dlt.resources"]
        unknown = [name for name in wanted if name not in self._made().resources]
        if unknown:
            raise ConnectError(f"the source has no resource {unknown[0]}; it has {', '.join(found)}")
        return [{"resource": name} for name in (wanted or found)]

    def read(self, partition: SourcePartition, offset: SourceOffset | None) -> Iterator[Read | None]:
        """Run after run. ConnectError, Retriable."""
        before = str(offset["state"]) if offset else None
        while not self.context.stopping():
            for read in self._run(partition["resource"], before):
                if read is not None:
                    before = str(read.offset["state"])
                yield read
            again_at = time.monotonic() + self.config["dlt.interval.ms"] / 1000
            yield None
            while time.monotonic() < again_at and not self.context.stopping():
                yield None

    def check(self, settings: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        """Makes the source."""
        try:
            made_source(settings["dlt.source"], arguments_of(settings["dlt.arguments"]))
        except (ConnectError, ImportError) as problem:
            return {"dlt.source": [str(problem)]}
        return {}

    def check_offsets(self, offsets: Mapping[str, Any]) -> None:
        """An offset is {"state": text}, as dlt writes it."""
        if set(offsets) != {"state"} or not isinstance(offsets["state"], str):
            raise ConnectError('an offset of this connector is {"state": "…"}')
        state_of(offsets["state"])

    def _run(self, resource: str, before: str | None) -> Iterator[Read | None]:
        state = state_of(before) if before else {}
        source = self._made()
        keys = self._keys(source.resources[resource])
        held: Read | None = None
        try:
            for item in run_resource(source, resource, state):
                for batch in batches_of(self._topic(item), item.data, keys):
                    if held is not None:
                        yield held
                    held = Read([batch], {"state": before or state_text({})}, ends_transaction=False)
        except ConnectError:
            raise
        except OSError as problem:
            raise Retriable(f"resource {resource}: {problem}") from problem
        except Exception as problem:  # dlt wraps what a resource raises
            raise ConnectError(f"resource {resource}: {_cause(problem)}") from problem
        after = state_text(state)
        if held is not None:
            yield Read(held.batches, {"state": after})
        elif after != before:
            yield Read([], {"state": after})

    def _topic(self, item: Item) -> str:
        return f"{self.config['topic.prefix']}{item.table}"

    def _keys(self, resource: Any) -> Sequence[str]:
        if self.config["key.fields"]:
            keys: Sequence[str] = self.config["key.fields"]
            return keys
        hint = resource.compute_table_schema().get("columns", {})
        return [name for name, column in hint.items() if column.get("primary_key")]

    def _made(self) -> Any:
        return made_source(self.config["dlt.source"], self._arguments)


def _cause(problem: BaseException) -> str:
    while problem.__cause__ is not None:
        problem = problem.__cause__
    return f"{type(problem).__name__}: {problem}"
