"""Resources of a dlt source, run without a pipeline, with a state that is ours.

dlt keeps what is incremental (cursors, keys that were seen at the cursor) in a state that its resources
read and
change while they run. A pipeline stores it at the destination; here it is the offset of a partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple, cast

from dlt.common import json
from dlt.common.configuration.container import Container
from dlt.common.configuration.specs.config_section_context import ConfigSectionContext
from dlt.common.pipeline import StateInjectableContext
from dlt.extract import DltResource, DltSource
from dlt.extract.items import TableNameMeta
from dlt.extract.pipe_iterator import ManagedPipeIterator
from dlt.extract.source import SourceInjectableContext, SourceSchemaInjectableContext

from moldau.connect.errors import ConnectError

SHORT_NAMES = {
    "rest_api": "dlt.sources.rest_api:rest_api_source",
    "sql_database": "dlt.sources.sql_database:sql_database",
    "filesystem": "dlt.sources.filesystem:filesystem",
}


class Item(NamedTuple):
    """What a resource has yielded."""

    table: str
    data: Any


def made_source(place: str, arguments: Mapping[str, Any]) -> DltSource:
    """Call `module:function` with these arguments. ConnectError."""
    module, colon, name = SHORT_NAMES.get(place, place).partition(":")
    if not colon:
        known = ", ".join(SHORT_NAMES)
        raise ConnectError(f"dlt.source={place}: write module:function, or one of {known}")
    try:
        function = getattr(import_module(module), name)
    except (ImportError, AttributeError) as problem:
        raise ConnectError(f"dlt.source={place} cannot be imported: {problem}") from problem
    try:
        made = function(**arguments)
    except Exception as problem:
        raise ConnectError(f"dlt.source={place}: {type(problem).__name__}: {problem}") from problem
    if isinstance(made, DltResource):
        resource = made
        made = DltSource(_schema_named(resource.name), resource.section or resource.name, [resource])
    if not isinstance(made, DltSource):
        raise ConnectError(f"dlt.source={place} gave a {type(made).__name__}, no dlt source and no resource")
    return made


def run_resource(source: DltSource, name: str, state: dict[str, Any]) -> Iterator[Item]:
    """Run one resource (with those that it stands on); `state` is changed while it runs."""
    source = source.with_resources(name)
    state.setdefault("sources", {})
    contexts = [
        ConfigSectionContext(
            pipeline_name=None,
            sections=("sources", source.section, source.name),
            source_state_key=source.name,
        ),
        StateInjectableContext(state=cast(Any, state)),
        SourceSchemaInjectableContext(source.schema),
        SourceInjectableContext(source),
    ]
    container = Container()
    with (
        container.injectable_context(contexts[0]),
        container.injectable_context(contexts[1]),
        container.injectable_context(contexts[2]),
        container.injectable_context(contexts[3]),
    ):
        items = cast(ManagedPipeIterator, ManagedPipeIterator.from_pipes(source.resources.selected_pipes))
    items.set_context(contexts)  # which enters them for each step: nothing of ours stays between two of them
    with items:
        for item in items:
            meta = item.meta
            table = meta.table_name if isinstance(meta, TableNameMeta) else item.pipe.name
            yield Item(table, item.item)


def state_text(state: Mapping[str, Any]) -> str:
    """A state as JSON can hold it, times and decimals with their types."""
    text: str = json.typed_dumps(state)
    return text


def state_of(text: str) -> dict[str, Any]:
    """The state of that text. ConnectError."""
    try:
        state = json.typed_loads(text)
    except ValueError as problem:
        raise ConnectError(f"the offset holds no state of dlt: {problem}") from None
    if not isinstance(state, dict):
        raise ConnectError("the offset holds no state of dlt")
    return state


def _schema_named(name: str) -> Any:
    from dlt.common.schema import Schema

    return Schema(name)
