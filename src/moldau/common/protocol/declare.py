"""How a message is declared: one class for all its versions, read by people first and by the compiler later.

    @message(key=12, versions=(0, 4), flexible_from=4)
    class HeartbeatRequest(Message):
        '''A member says that it is alive.'''

        group_id: String = ""
        generation_id: Int32 = 0
        member_id: String = ""
        group_instance_id: NullableString = since(3, default=None)

The order of the fields is their order on the wire. Every field has a default, so a handler names only what it
has to say: `HeartbeatResponse(error_code=27)`. Nested structs are `Struct` classes of the same file, before
or after their use.

Declaring must cost next to nothing, since a broker imports all of it when it starts: annotations stay strings
(each message file begins with `from __future__ import annotations`) until `compiler.py` resolves them, and
constructor, encoder and decoder are compiled when they are first called.

Invariant: a value that differs from its default is never lost silently, unless the field is declared
`ignorable`: encoding it for a version that has no such field raises ValueError.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Annotated, Any, ClassVar, Self, TypeVar, dataclass_transform


class Fixed:
    """A wire type of fixed width: its `struct` letter, size in bytes, and default."""

    __slots__ = ("default", "letter", "size_bytes")

    def __init__(self, letter: str, size_bytes: int, default: Any) -> None:
        self.letter, self.size_bytes, self.default = letter, size_bytes, default


class Sized:
    """A wire type with a length in front: a string, bytes, or a slice of record batches that is not
    copied.
    """

    __slots__ = ("kind", "nullable")

    def __init__(self, kind: str, nullable: bool) -> None:
        self.kind, self.nullable = kind, nullable


ZERO_UUID = bytes(16)

Bool = Annotated[bool, Fixed("?", 1, False)]
Int8 = Annotated[int, Fixed("b", 1, 0)]
Int16 = Annotated[int, Fixed("h", 2, 0)]
Int32 = Annotated[int, Fixed("i", 4, 0)]
Int64 = Annotated[int, Fixed("q", 8, 0)]
UInt16 = Annotated[int, Fixed("H", 2, 0)]
UInt32 = Annotated[int, Fixed("I", 4, 0)]
Float64 = Annotated[float, Fixed("d", 8, 0.0)]
Uuid = Annotated[bytes, Fixed("16s", 16, ZERO_UUID)]
String = Annotated[str, Sized("string", nullable=False)]
NullableString = Annotated[str | None, Sized("string", nullable=True)]
Bytes = Annotated[bytes, Sized("bytes", nullable=False)]
NullableBytes = Annotated[bytes | None, Sized("bytes", nullable=True)]
Records = Annotated[bytes | memoryview | None, Sized("records", nullable=True)]
"""Record batches. Decoding gives a slice of the frame, valid only as long as the frame's buffer is."""


class Implicit:
    """The default implied by a type: zero, null, an empty list, a struct of defaults."""

    def __repr__(self) -> str:
        return "<implied by the type>"


IMPLICIT: Any = Implicit()


class Field:
    """The declaration of a field beside its type; versions are inclusive, None means no end."""

    __slots__ = ("default", "ignorable", "nullable_since", "since", "tag", "until")

    def __init__(
        self,
        default: Any,
        since: int = 0,
        until: int | None = None,
        nullable_since: int = 0,
        tag: int | None = None,
        ignorable: bool = False,
    ) -> None:
        self.default, self.since, self.until = default, since, until
        self.nullable_since, self.tag, self.ignorable = nullable_since, tag, ignorable


def field(
    *,
    default: Any = IMPLICIT,
    since: int = 0,
    until: int | None = None,
    nullable_since: int = 0,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """A field that not every version has in the same form.

    `since` and `until` are the first and last version that have it; null is allowed from `nullable_since` on
    (if the type allows it at all); `tag` puts it into the tag section; `ignorable` drops it for a version
    that lacks it.
    """
    return Field(default, since, until, nullable_since, tag, ignorable)


def since(
    version: int,
    *,
    default: Any = IMPLICIT,
    until: int | None = None,
    nullable_since: int = 0,
    ignorable: bool = False,
) -> Any:
    """A field that `version` added; see `field`."""
    return Field(default, version, until, nullable_since, None, ignorable)


def tagged(tag: int, *, since: int = 0, default: Any = IMPLICIT, ignorable: bool = False) -> Any:
    """A field of the tag section: on the wire only where it differs from its default; see `field`."""
    return Field(default, since, None, 0, tag, ignorable)


def array() -> Any:
    """A list, empty by default."""
    return IMPLICIT


def struct() -> Any:
    """A nested struct, all defaults by default."""
    return IMPLICIT


@dataclass_transform(kw_only_default=True)
class StructType(type):
    """Turns the declared fields into slots, and keeps the declaration in FIELDS for the compiler."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> StructType:
        """Move the annotated names out of the class body: a slot may not share its name with one."""
        fields: dict[str, tuple[str, Field]] = {}
        for attribute, annotation in namespace.get("__annotations__", {}).items():
            if annotation.startswith("ClassVar"):
                continue
            declared = namespace.pop(attribute, IMPLICIT)
            if type(declared) is not Field:
                declared = Field(declared)
            fields[attribute] = (annotation, declared)
        namespace["__slots__"] = tuple(fields)
        namespace["FIELDS"] = fields
        return super().__new__(mcs, name, bases, namespace)


class Struct(metaclass=StructType):
    """A group of fields: the base of messages and nested structs."""

    FIELDS: ClassVar[dict[str, tuple[str, Field]]]

    def __init__(self, **values: Any) -> None:
        from moldau.common.protocol import compiler

        # The first construction compiles the class's own constructor, which then takes this one's place.
        constructor = compiler.compile_init(type(self))
        setattr(type(self), "__init__", constructor)  # noqa: B010 - mypy forbids the plain assignment
        constructor(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.FIELDS)
        return f"{type(self).__name__}({values})"


class Message(Struct):
    """The body of a request or response, or a record's key or value.

    KEY is the API key of a request or response, the record type of a coordinator's key, else -1.
    """

    KEY: ClassVar[int] = -1
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = None
    RESPONSE: ClassVar[type[Message]]
    DECODERS: ClassVar[dict[int, Callable[[bytes | memoryview, int], Any]]]
    ENCODERS: ClassVar[dict[int, Callable[[Any], list[bytes | memoryview]]]]
    SLICED_DECODERS: ClassVar[dict[int, Callable[[bytes | memoryview, int, int], Generator[None, None, Any]]]]
    SLICED_ENCODERS: ClassVar[dict[int, Callable[[Any], Generator[None, None, list[bytes]]]]]

    @classmethod
    def decode(cls, data: bytes | memoryview, version: int, offset: int = 0) -> Self:
        """Read a message that fills `data` from `offset` to the end; MalformedMessage if it does not.

        Strings and bytes are copied; `Records` fields are slices of `data`. ValueError for a version
        that is not declared.
        """
        decoder = cls.DECODERS.get(version)
        if decoder is None:
            from moldau.common.protocol import compiler

            decoder = compiler.decoder_of(cls, version)
        message: Self = decoder(data, offset)
        return message

    def encode(self, version: int) -> bytes:
        """The message's bytes. ValueError if `version` is not declared or cannot express a value."""
        return b"".join(self.encode_parts(version))

    def encode_parts(self, version: int) -> list[bytes | memoryview]:
        """As `encode`, but in pieces, so that record batches go into a vectored write uncopied."""
        encoder = self.ENCODERS.get(version)
        if encoder is None:
            from moldau.common.protocol import compiler

            encoder = compiler.encoder_of(type(self), version)
        return encoder(self)

    @classmethod
    def decode_in_slices(
        cls, data: bytes | memoryview, version: int, offset: int, elements_max: int
    ) -> Generator[None, None, Self]:
        """As `decode`, for a large frame: a generator that yields every few microseconds.
        MalformedMessage also for more than `elements_max` array elements, counted at all depths.
        """
        from moldau.common.protocol import compiler

        return compiler.sliced_decoder_of(cls, version)(data, offset, elements_max)

    def encode_in_slices(self, version: int) -> Generator[None, None, list[bytes]]:
        """As `encode`, for a long response: a generator that yields now and then, and returns chunks."""
        from moldau.common.protocol import compiler

        return compiler.sliced_encoder_of(type(self), version)(self)

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        """Whether `version` uses compact lengths and tag sections (KIP-482), in body and headers."""
        return cls.FLEXIBLE_FROM is not None and version >= cls.FLEXIBLE_FROM


_LONG_ROWS = 200


def is_long(message: object) -> bool:
    """Whether a message is worth encoding in slices: some hundred rows, directly or one level below.
    Looks at no more rows than that.
    """
    rows = 0
    for name in getattr(message, "FIELDS", ()):
        value = getattr(message, name)
        if type(value) is list:
            rows += len(value)
            if rows > _LONG_ROWS:
                return True
            for row in value:
                for inner in getattr(row, "FIELDS", ()):
                    below = getattr(row, inner)
                    if type(below) is list:
                        rows += len(below)
            if rows > _LONG_ROWS:
                return True
    return False


MessageT = TypeVar("MessageT", bound=Message)


def message(
    *, key: int = -1, versions: tuple[int, int], flexible_from: int | None
) -> Callable[[type[MessageT]], type[MessageT]]:
    """Declare a message with these versions (inclusive); `flexible_from` None means never."""

    def declare(cls: type[MessageT]) -> type[MessageT]:
        cls.KEY, cls.VERSIONS, cls.FLEXIBLE_FROM = key, versions, flexible_from
        cls.DECODERS, cls.ENCODERS = {}, {}
        cls.SLICED_DECODERS, cls.SLICED_ENCODERS = {}, {}
        return cls

    return declare


def response_to(request: type[Message]) -> Callable[[type[MessageT]], type[MessageT]]:
    """Declare the response to `request`, with which it shares key, versions and flexibility."""

    def declare(cls: type[MessageT]) -> type[MessageT]:
        request.RESPONSE = cls
        return message(key=request.KEY, versions=request.VERSIONS, flexible_from=request.FLEXIBLE_FROM)(cls)

    return declare
