"""Connectors made of functions.

    from moldau.connect.functions import sink, source

    @source(settings=[Setting("path", SettingType.STRING, "Where.")])
    def lines(partition, offset, settings):
        ...
        yield Read([batch_of("lines", texts)], {"position": at})

    @sink(settings=[Setting("path", SettingType.STRING, "Where to.")])
    def append(batch, number, settings):
        ...

What comes out is a class like any other: `connector.class=my_package.files:lines` selects it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from moldau.connect.batch import Batch
from moldau.connect.settings import Setting
from moldau.connect.sink import Sink
from moldau.connect.source import Read, Source, SourceOffset, SourcePartition

ReadFunction = Callable[[SourcePartition, SourceOffset | None, Mapping[str, Any]], Iterator[Read | None]]
WriteFunction = Callable[[Batch, int, Mapping[str, Any]], None]
ListFunction = Callable[[Mapping[str, Any]], Sequence[SourcePartition]]


def source(
    settings: Sequence[Setting] = (), partitions: ListFunction | None = None, version: str = "1"
) -> Callable[[ReadFunction], type[Source]]:
    """A source of a generator function; `partitions` lists what there is to read (none: one partition)."""

    def made(function: ReadFunction) -> type[Source]:
        def read(
            self: Source, partition: SourcePartition, offset: SourceOffset | None
        ) -> Iterator[Read | None]:
            return function(partition, offset, self.config)

        def listed(self: Source) -> Sequence[SourcePartition]:
            return [{"source": function.__name__}] if partitions is None else partitions(self.config)

        kind: type[Source] = _class(Source, function, settings, version, {"read": read, "partitions": listed})
        return kind

    return made


def sink(settings: Sequence[Setting] = (), version: str = "1") -> Callable[[WriteFunction], type[Sink]]:
    """A sink of a function that makes lasting what it is given, before it returns."""

    def made(function: WriteFunction) -> type[Sink]:
        def write(self: Sink, batch: Batch, number: int) -> None:
            function(batch, number, self.config)

        kind: type[Sink] = _class(Sink, function, settings, version, {"write": write})
        return kind

    return made


def _class(
    base: type[Any], function: Any, settings: Sequence[Setting], version: str, members: Mapping[str, Any]
) -> Any:
    own = {
        **members,
        "settings": tuple(settings),
        "version": version,
        "__doc__": function.__doc__,
        "__module__": function.__module__,
        "__qualname__": function.__qualname__,
    }
    return type(function.__name__, (base,), own)
