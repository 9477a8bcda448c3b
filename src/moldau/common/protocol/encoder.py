"""Writes the function that encodes one version of one message.

The function is straight-line code that appends pieces to a list: runs of fixed-width fields packed in one
`struct` call (with the length of the string that follows, where it has a fixed width), strings and byte
fields as they are. The caller joins the pieces, or hands them to a vectored write.

Of each message and version there is a second form for long answers: a generator that hands back the thread
after some hundred elements of arrays, and returns the bytes in chunks.

Invariant: a value that this version cannot express is refused (ValueError) unless its field is ignorable; a
tagged field is written only where it differs from its default, in the order of the tags.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from struct import error, pack
from typing import Any, NoReturn

from moldau.common.protocol.declare import IMPLICIT, Fixed, Message, Sized, Struct
from moldau.common.protocol.schema import Array, Column, Nested, WireType, columns
from moldau.common.protocol.source import SourceWriter, codec_title
from moldau.common.protocol.wire import STRING_BYTES_MAX, uvarint

_PAUSE_MASK = 255  # elements between two pauses, less one
_INTEGERS_AT_ONCE = 4096


def _lacking(struct_name: str, field: str, version: int) -> NoReturn:
    raise ValueError(f"{struct_name}.{field} is set, but version {version} has no such field")


def _misfit(name: str, cause: Exception) -> ValueError:
    return ValueError(f"cannot encode {name}: {cause}")


def _string_length(length: int) -> bytes:
    """The compact length (plus one) of a long string; more than two bytes can express is refused."""
    if length - 1 > STRING_BYTES_MAX:
        raise ValueError(f"a string of {length - 1} bytes; {STRING_BYTES_MAX} is the most")
    return uvarint(length)


def compile_encoder(cls: type[Message], version: int) -> Callable[[Any], list[bytes | memoryview]]:
    """The encoder of `cls` in `version`: takes the message, returns its bytes in pieces."""
    return _EncoderWriter(cls, version).write()


def compile_sliced_encoder(
    cls: type[Message], version: int
) -> Callable[[Any], Generator[None, None, list[bytes]]]:
    """The same in slices; returns the message's bytes in chunks of some kilobytes."""
    return _EncoderWriter(cls, version, sliced=True).write()


class _EncoderWriter(SourceWriter):
    def __init__(self, cls: type[Message], version: int, *, sliced: bool = False) -> None:
        super().__init__()
        self.cls, self.version, self.sliced = cls, version, sliced
        self.flexible = cls.is_flexible(version)
        self.add = "add"  # the list that pieces go to; a tagged field has one of its own, to learn its size
        self.names.update(
            lacking=_lacking,
            misfit=_misfit,
            uvarint=uvarint,
            string_length=_string_length,
            pack=pack,
            join=b"".join,
            damage=(error, AttributeError, TypeError),
        )

    def write(self) -> Callable[..., Any]:
        self._depth = 2
        self.line("out = []; add = out.append")
        if self.sliced:
            self.line("k = 0; chunks = []")
            self.line("if 0: yield")  # also a message without arrays is a generator
        self.struct(self.cls, "m")
        self.flush()
        if self.sliced:
            self.chunk()
        self.line("return chunks" if self.sliced else "return out")
        self._depth = 1
        self.line("except damage as cause:")
        self.line(f"    raise misfit('{self.cls.__name__} v{self.version}', cause) from cause")
        return self.function(
            "def codec(m):\n    try:", codec_title(self.cls, self.version, "encoder", self.sliced)
        )

    def flush(self) -> None:
        """Write the collected run of fixed-width fields out as one packing."""
        if self.run and all(letter == "x" for letter, _ in self.run):
            self.line(f"{self.add}({bytes(len(self.run))!r})")
            self.run = []
        if self.run:
            pack_run, expressions, _ = self.take_run("pack", "pack")
            self.line(f"{self.add}({pack_run}({', '.join(expressions)}))")

    def struct(self, cls: type[Struct], source: str) -> None:
        """Write the fields of the struct that is in `source`."""
        known_tags: list[Column] = []
        for column in columns(cls):
            attribute = f"{source}.{column.name}"
            if not column.present(self.version):
                if not column.ignorable:
                    self.line(
                        f"if {self.differs(column, attribute)}: "
                        f"lacking({cls.__name__!r}, {column.name!r}, {self.version})"
                    )
            elif column.tag is not None:
                known_tags.append(column)
            else:
                self.value(column.type, column.nullable(self.version), attribute)
        if not self.flexible:
            return
        if known_tags:
            self.tags(known_tags, source)
        else:
            self.run.append(("x", ""))

    def differs(self, column: Column, attribute: str) -> str:
        """A condition: the field has been given a value other than its default."""
        if column.default is None:
            return f"{attribute} is not None"
        if column.default is not IMPLICIT:
            return f"{attribute} != {column.default!r}"
        if isinstance(column.type, Nested):
            return f"{attribute} != {self.constant('default', column.type.struct())}"
        return attribute

    def value(self, wire_type: WireType, nullable: bool, source: str) -> None:
        """Write one value, the result of the expression `source`."""
        if isinstance(wire_type, Fixed):
            self.run.append((wire_type.letter, source))
        elif isinstance(wire_type, Nested):
            self.nested(wire_type, nullable, source)
        else:
            self.line(f"v = {source}")
            if nullable:
                before = list(self.run)
                with self.block("if v is None:"):
                    self.run.append(self.null(wire_type))
                    self.flush()
                self.run = before
                with self.block("else:"):
                    self.counted(wire_type)
                    self.flush()
            else:
                self.counted(wire_type)

    def null(self, wire_type: Sized | Array) -> tuple[str, str]:
        """The length that stands for null: 0 in flexible versions (lengths are one too high there), or -1."""
        if self.flexible:
            return "x", ""
        return ("h" if isinstance(wire_type, Sized) and wire_type.kind == "string" else "i"), "-1"

    def nested(self, wire_type: Nested, nullable: bool, source: str) -> None:
        """A struct in a struct; a nullable one is preceded by a byte, -1 for null and 1 otherwise."""
        name = self.fresh("m")
        self.line(f"{name} = {source}")
        if not nullable:
            self.struct(wire_type.struct, name)
            return
        before = list(self.run)
        with self.block(f"if {name} is None:"):
            self.run.append(("b", "-1"))
            self.flush()
        self.run = before
        with self.block("else:"):
            self.run.append(("b", "1"))
            self.struct(wire_type.struct, name)
            self.flush()

    def counted(self, wire_type: Sized | Array) -> None:
        """What is in `v`, with its length or count in front."""
        if isinstance(wire_type, Sized):
            if wire_type.kind == "string":
                self.line("v = v.encode()")
                self.length("h", "string_length(n)")
            else:
                self.length("i", "uvarint(n)")
            self.line(f"{self.add}(v)")
            return
        self.length("i", "uvarint(n)")
        element = wire_type.element
        if isinstance(element, Fixed) and len(element.letter) == 1:
            if self.may_pause:
                self.integers(element)
            else:
                self.line(f"{self.add}(pack(f'>{{len(v)}}{element.letter}', *v))")
            return
        name = self.fresh("m")
        with self.block(f"for {name} in v:"):
            if isinstance(element, Nested):
                self.struct(element.struct, name)
            else:
                self.value(element, False, name)
            self.flush()
            if self.may_pause:
                self.line("k += 1")
                with self.block(f"if not k & {_PAUSE_MASK}:"):
                    self.chunk()
                    self.line("yield")

    @property
    def may_pause(self) -> bool:
        """Whether output goes straight to the response: a tagged field is collected first."""
        return self.sliced and self.add == "add"

    def chunk(self) -> None:
        """Join what was written since the last chunk."""
        self.line("chunks.append(join(out)); out.clear()")

    def integers(self, element: Fixed) -> None:
        """The integers in `v`, a few thousand at a time."""
        with self.block(f"for i in range(0, len(v), {_INTEGERS_AT_ONCE}):"):
            self.line(f"w = v[i:i + {_INTEGERS_AT_ONCE}]")
            self.line(f"add(pack(f'>{{len(w)}}{element.letter}', *w))")
            with self.block(f"if len(w) == {_INTEGERS_AT_ONCE}:"):
                self.chunk()
                self.line("yield")

    def length(self, letter: str, compact: str) -> None:
        """The length of `v`, packed together with the run before it; `compact` makes a length over 127."""
        if not self.flexible:
            self.run.append((letter, "len(v)"))
            self.flush()
            return
        self.line("n = len(v) + 1")
        if not self.run:
            self.line(f"{self.add}(uvarint(n) if n < 128 else {compact})")
            return
        before = list(self.run)
        with self.block("if n < 128:"):
            self.run.append(("B", "n"))
            self.flush()
        self.run = before
        with self.block("else:"):
            self.flush()
            self.line(f"{self.add}({compact})")

    def tags(self, known: list[Column], source: str) -> None:
        """The tag section: each field that is not at its default, with its tag and its size in front."""
        self.flush()
        outer, pieces = self.add, self.fresh("tags")
        self.line(f"{pieces} = []")
        for column in sorted(known, key=lambda column: column.tag or 0):
            attribute = f"{source}.{column.name}"
            with self.block(f"if {self.differs(column, attribute)}:"):
                inner = self.fresh("g")
                self.add = f"{inner}.append"
                self.line(f"{inner} = []")
                self.value(column.type, column.nullable(self.version), attribute)
                self.flush()
                self.line(f"{inner} = join({inner})")
                self.line(f"{pieces}.append(uvarint({column.tag}) + uvarint(len({inner})) + {inner})")
        self.add = outer
        self.line(f"{outer}(uvarint(len({pieces})))")
        self.line(f"if {pieces}: {outer}(join({pieces}))")
