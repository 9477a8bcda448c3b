"""Compiles declarations on first use: a class's constructor, and the encoder and decoder of each version in
use.

A broker uses only some of the several hundred pairs of message and version; a pair costs about a millisecond,
once. The functions are kept in the message class (`DECODERS`, `ENCODERS`), where a hand-tuned one may replace
them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from moldau.common.protocol.declare import IMPLICIT, Message, Struct
from moldau.common.protocol.schema import Nested, columns
from moldau.common.protocol.source import SourceWriter


def _check_version(cls: type[Message], version: int) -> None:
    low, high = cls.VERSIONS
    if not low <= version <= high:
        raise ValueError(f"{cls.__name__} has versions {low} to {high}, not {version}")


def decoder_of(cls: type[Message], version: int) -> Callable[[bytes | memoryview, int], Any]:
    """The decoder of one version, compiled on first use. ValueError for an undeclared version."""
    if version not in cls.DECODERS:
        from moldau.common.protocol.decoder import compile_decoder

        _check_version(cls, version)
        cls.DECODERS[version] = compile_decoder(cls, version)
    return cls.DECODERS[version]


def encoder_of(cls: type[Message], version: int) -> Callable[[Any], list[bytes | memoryview]]:
    """The encoder of one version, compiled on first use. ValueError for an undeclared version."""
    if version not in cls.ENCODERS:
        from moldau.common.protocol.encoder import compile_encoder

        _check_version(cls, version)
        cls.ENCODERS[version] = compile_encoder(cls, version)
    return cls.ENCODERS[version]


def sliced_decoder_of(
    cls: type[Message], version: int
) -> Callable[[bytes | memoryview, int, int], Generator[None, None, Any]]:
    """The decoder of one version for large frames, as `decoder_of`."""
    if version not in cls.SLICED_DECODERS:
        from moldau.common.protocol.decoder import compile_sliced_decoder

        _check_version(cls, version)
        cls.SLICED_DECODERS[version] = compile_sliced_decoder(cls, version)
    return cls.SLICED_DECODERS[version]


def sliced_encoder_of(
    cls: type[Message], version: int
) -> Callable[[Any], Generator[None, None, list[bytes]]]:
    """The encoder of one version for long responses, as `encoder_of`."""
    if version not in cls.SLICED_ENCODERS:
        from moldau.common.protocol.encoder import compile_sliced_encoder

        _check_version(cls, version)
        cls.SLICED_ENCODERS[version] = compile_sliced_encoder(cls, version)
    return cls.SLICED_ENCODERS[version]


def compile_init(cls: type[Struct]) -> Callable[..., None]:
    """The constructor of a struct: keyword arguments with defaults; default lists and structs are new
    for each instance.
    """
    writer = SourceWriter()
    parameters = []
    for column in columns(cls):
        name = column.name
        if column.default is not IMPLICIT:
            parameters.append(f"{name}={column.default!r}")
            writer.line(f"self.{name} = {name}")
            continue
        fresh = f"{writer.constant('T', column.type.struct)}()" if isinstance(column.type, Nested) else "[]"
        parameters.append(f"{name}=IMPLICIT")
        writer.line(f"self.{name} = {fresh} if {name} is IMPLICIT else {name}")
    if not parameters:
        writer.line("pass")
    writer.names["IMPLICIT"] = IMPLICIT
    star = ", *, " if parameters else ""
    title = f"constructor of {cls.__module__}.{cls.__qualname__}"
    return writer.function(f"def codec(self{star}{', '.join(parameters)}):", title)
