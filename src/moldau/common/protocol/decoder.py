"""Writes the function that decodes one version of one message.

The function is straight-line code: nested structs are inlined, fields of fixed width are unpacked a run at a
time, strings are sliced in place. For Heartbeat v3 it reads

    m1 = new(HeartbeatRequest)
    (n,) = short(d, o); o += 2
    e = o + n
    if n < 0 or e > z: bad_length(o)
    m1.group_id = str(d[o:e], "utf-8"); o = e
    m1.generation_id, n, = int_short(d, o); o += 6
    ...

with `d` the data, `o` the offset, `z` the end of the data, `n` a length, `e` the end that it implies.

Of each message and version there is a second form for large frames: a generator, which hands back the thread
after every few dozen elements of arrays, at whatever depth they stand, and refuses a frame with more elements
than it is told to take; a 2-byte row becomes an object of a hundred.

Invariant: every length is compared with `z` before it is used; an array's count times the least size of its
elements too. What `struct` and indexing notice by themselves (reading behind the end) is turned into
MalformedMessage at the bottom.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from struct import error, unpack_from
from typing import Any, NoReturn

from moldau.common.protocol.declare import IMPLICIT, Fixed, Message, Sized, Struct
from moldau.common.protocol.release import release_rows
from moldau.common.protocol.schema import (
    Array,
    Column,
    Nested,
    WireType,
    columns,
    holds_records,
    min_size_bytes,
)
from moldau.common.protocol.source import SourceWriter, codec_title
from moldau.common.protocol.wire import (
    STRING_BYTES_MAX,
    MalformedMessage,
    finish_uvarint,
    skip_tags,
    skip_tags_in_slices,
)

_BYTES_LEFT = "z - o"
_PAUSE_MASK = 63  # elements between two pauses, less one
_INTEGERS_AT_ONCE = 4096


def _bad_length(offset: int) -> NoReturn:
    raise MalformedMessage(f"a length, count or null just before offset {offset} cannot be right")


def _too_many(elements_max: int) -> NoReturn:
    raise MalformedMessage(
        f"it has more than {elements_max} array elements, the most allowed (moldau.request.elements.max)"
    )


def compile_decoder(cls: type[Message], version: int) -> Callable[[bytes | memoryview, int], Any]:
    """The decoder of `cls` in `version`: takes data and offset, returns the message."""
    return _DecoderWriter(cls, version).write()


def compile_sliced_decoder(
    cls: type[Message], version: int
) -> Callable[[bytes | memoryview, int, int], Generator[None, None, Any]]:
    """The same in slices: takes data, offset and the maximum number of array elements."""
    return _DecoderWriter(cls, version, sliced=True).write()


class _DecoderWriter(SourceWriter):
    def __init__(self, cls: type[Message], version: int, *, sliced: bool = False) -> None:
        super().__init__()
        self.cls, self.version, self.sliced = cls, version, sliced
        self.flexible = cls.is_flexible(version)
        self.zero_copy = holds_records(cls)
        self.names.update(
            new=object.__new__,
            bad_length=_bad_length,
            finish=finish_uvarint,
            skip_tags=skip_tags,
            skip_tags_in_slices=skip_tags_in_slices,
            too_many=_too_many,
            release_rows=release_rows,
            unpack_from=unpack_from,
            damage=(error, IndexError, UnicodeDecodeError),
            Malformed=MalformedMessage,
        )

    def write(self) -> Callable[..., Any]:
        self._depth = 2
        # Without records the frame is small, and slices of `bytes` are twice as fast as others.
        if self.sliced:
            self.line("k = 0")
            self.line("if 0: yield")  # also a message without arrays is a generator
        else:
            self.line("d = memoryview(d)" if self.zero_copy else "if type(d) is not bytes: d = bytes(d)")
        self.line("z = len(d)")
        self.struct(self.cls, "m")
        self.flush()
        self._depth = 1
        self.line("except damage as cause:")
        name = f"{self.cls.__name__} v{self.version}"
        self.line(f"    raise Malformed(f'{name}: {{cause}} (offset {{o}})') from cause")
        if not hasattr(self.cls, "RESPONSE"):
            # Kafka ignores what follows a request, and librdkafka relies on it: its Metadata request for
            # all topics (v9 and up, seen with 2.16.0) writes the null array as four bytes instead of one.
            self.line("if o != z:")
            self.line(f"    raise Malformed(f'{name} ends at offset {{o}}, but its frame at {{z}}')")
        self.line("return m")
        head = f"def codec(d, o{', most' if self.sliced else ''}):\n    try:"
        return self.function(head, codec_title(self.cls, self.version, "decoder", self.sliced))

    def flush(self) -> None:
        """Write the collected run of fixed-width fields out as one unpacking."""
        if len(self.run) == 1 and self.run[0][0] == "B":
            self.line(f"{self.run.pop()[1]} = d[o]; o += 1")
        if self.run:
            unpack, targets, size_bytes = self.take_run("unpack", "unpack_from")
            self.line(f"{', '.join(targets)}, = {unpack}(d, o)")
            self.line(f"o += {size_bytes}")

    def struct(self, cls: type[Struct], target: str) -> None:
        """Make an instance of `cls` in `target` and read its fields."""
        self.line(f"{target} = new({self.constant(cls.__name__, cls)})")
        known_tags: dict[int, Column] = {}
        for column in columns(cls):
            attribute = f"{target}.{column.name}"
            if not column.present(self.version) or column.tag is not None:
                self.line(f"{attribute} = {self.default(column)}")
                if column.tag is not None and column.present(self.version):
                    known_tags[column.tag] = column
            else:
                self.value(column.type, column.nullable(self.version), attribute)
        if self.flexible:
            self.tags(known_tags, target)

    def default(self, column: Column) -> str:
        """An expression for a field's default, new for each message where the value can change."""
        if column.default is not IMPLICIT:
            return repr(column.default)
        if isinstance(column.type, Nested):
            return f"{self.constant('T', column.type.struct)}()"
        return "[]"

    def value(self, wire_type: WireType, nullable: bool, target: str, tagged: bool = False) -> None:
        """Read one value into `target`."""
        if isinstance(wire_type, Fixed):
            self.run.append((wire_type.letter, target))
        elif isinstance(wire_type, Nested):
            self.nested(wire_type, nullable, target, "n <= 0" if tagged else "n < 0")
        elif isinstance(wire_type, Sized):
            letter = "h" if wire_type.kind == "string" else "i"
            self.length(letter, nullable, target, lambda: self.sized(wire_type, target))
        else:
            self.length("i", nullable, target, lambda: self.array(wire_type, target))

    def nested(self, wire_type: Nested, nullable: bool, target: str, is_null: str) -> None:
        """A struct in a struct; a nullable one is preceded by a byte, negative for null (or 0, if tagged)."""
        if not nullable:
            name = self.fresh("m")
            self.struct(wire_type.struct, name)
            self.line(f"{target} = {name}")
            return
        self.run.append(("b", "n"))
        self.flush()
        with self.block(f"if {is_null}:"):
            self.line(f"{target} = None")
        with self.block("else:"):
            self.nested(wire_type, False, target, is_null)
            self.flush()

    def length(self, letter: str, nullable: bool, target: str, read: Callable[[], None]) -> None:
        """Read a length or count into `n`, deal with null, go on with `read`, for which `n` is >= 0."""
        self.run.append(("B" if self.flexible else letter, "n"))
        self.flush()
        if self.flexible:
            self.line("if n > 127: n, o = finish(d, o, n)")
            self.line("n -= 1")
        if not nullable:
            self.line("if n < 0: bad_length(o)")
            read()
            return
        with self.block("if n < 0:"):
            if not self.flexible:
                self.line("if n != -1: bad_length(o)")
            self.line(f"{target} = None")
        with self.block("else:"):
            read()
            self.flush()

    def sized(self, wire_type: Sized, target: str) -> None:
        """Text, bytes or records of `n` bytes."""
        self.line("e = o + n")
        # A compact length could be any, but text may be no longer than its old two-byte length can say.
        text_in_varint = self.flexible and wire_type.kind == "string"
        self.line(
            f"if e > z or n > {STRING_BYTES_MAX}: bad_length(o)"
            if text_in_varint
            else "if e > z: bad_length(o)"
        )
        if wire_type.kind == "string":
            self.line(f"{target} = str(d[o:e], 'utf-8')")
        elif wire_type.kind == "bytes" and (self.zero_copy or self.sliced):
            self.line(f"{target} = bytes(d[o:e])")
        else:
            self.line(f"{target} = d[o:e]")
        self.line("o = e")

    def array(self, wire_type: Array, target: str) -> None:
        """A list of `n` elements."""
        element = wire_type.element
        least_bytes = max(1, min_size_bytes(element, self.version, self.flexible))
        self.line(f"if n * {least_bytes} > {_BYTES_LEFT}: bad_length(o)")
        if isinstance(element, Fixed) and len(element.letter) == 1:
            if self.sliced:
                self.integers(element, target)
                return
            self.line(f"{target} = list(unpack_from(f'>{{n}}{element.letter}', d, o))")
            self.line(f"o += n * {element.size_bytes}")
            return
        name = self.fresh("m")
        self.line(f"{target} = []")
        self.line(f"add{name} = {target}.append")
        with self.block("for _ in range(n):"):
            if isinstance(element, Nested):
                self.struct(element.struct, name)
            else:
                self.value(element, False, name)
            self.flush()
            self.line(f"add{name}({name})")
            self.pause(target)

    def pause(self, rows: str = "()") -> None:
        """Count one element of the list `rows`, and yield now and then."""
        if self.sliced:
            self.line("k += 1")
            with self.block(f"if not k & {_PAUSE_MASK}:"):
                with self.block("if k > most:"):
                    self.line(f"yield from release_rows({rows}, m)")
                    self.line("too_many(most)")
                self.line("yield")

    def integers(self, element: Fixed, target: str) -> None:
        """A list of `n` integers, a few thousand at a time."""
        name = self.fresh("a")
        self.line(f"{name} = {target} = []")
        with self.block("while n:"):
            self.line(f"c = n if n < {_INTEGERS_AT_ONCE} else {_INTEGERS_AT_ONCE}")
            self.line(f"{name}.extend(unpack_from(f'>{{c}}{element.letter}', d, o))")
            self.line(f"o += c * {element.size_bytes}; n -= c; k += c")
            self.line("if k > most: too_many(most)")
            self.line(f"if c == {_INTEGERS_AT_ONCE}: yield")

    def tags(self, known: dict[int, Column], target: str) -> None:
        """The tag section that ends a struct; unknown tags are skipped."""
        self.run.append(("B", "n"))
        self.flush()
        with self.block("if n:"):
            self.line("if n > 127: n, o = finish(d, o, n)")
            if not known:
                if self.sliced:
                    self.line("o = yield from skip_tags_in_slices(d, o, n, z)")
                else:
                    self.line("o = skip_tags(d, o, n, z)")
                return
            self.line(f"if n * 2 > {_BYTES_LEFT}: bad_length(o)")
            tag, end = self.fresh("t"), self.fresh("e")
            with self.block("for _ in range(n):"):
                for name in (tag, "n"):
                    self.line(f"{name} = d[o]; o += 1")
                    self.line(f"if {name} > 127: {name}, o = finish(d, o, {name})")
                self.line(f"{end} = o + n")
                self.line(f"if {end} > z: bad_length(o)")
                word = "if"
                for number, column in known.items():
                    with self.block(f"{word} {tag} == {number}:"):
                        attribute = f"{target}.{column.name}"
                        self.value(column.type, column.nullable(self.version), attribute, tagged=True)
                        self.flush()
                        self.line(f"if o != {end}: bad_length(o)")
                    word = "elif"
                with self.block("else:"):
                    self.line(f"o = {end}")
                self.pause()
