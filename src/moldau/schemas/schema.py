"""What the three languages of schemas have in common.

A schema is text in a language, with references to other schemas by a name that the text uses. Whoever looks
references up (the registry in its own state, a client over HTTP) hands the texts in: nothing here fetches
anything, least of all what a text points at.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol


class SchemaType(StrEnum):
    """The languages, by the names that Confluent's registry gives them."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


class Reference(NamedTuple):
    """`name`, as the text uses it, means version `version` of `subject`."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class SchemaText:
    """A schema as it is registered."""

    schema_type: SchemaType
    text: str
    references: tuple[Reference, ...] = ()


class Difference(NamedTuple):
    """One way in which a reader's schema does not fit what was written with another."""

    kind: str
    """Confluent's name of it, such as READER_FIELD_MISSING_DEFAULT_VALUE."""
    path: str
    """Where it is, as Confluent's registry prints it for this language."""
    description: str
    """A sentence for a person, in which {reader} and {writer} stand for the words that tell the two apart
    (`compatibility.messages` puts "new" and "old" there)."""
    additional: str = ""


class InvalidSchema(ValueError):
    """A text is no schema of its language; the message says where and why, in one sentence."""


class TooComplex(InvalidSchema):
    """Understanding or comparing it would take longer than any schema that people write: refused."""


class ParsedSchema(Protocol):
    """A schema that was understood."""

    @property
    def schema_type(self) -> SchemaType: ...

    @property
    def references(self) -> tuple[Reference, ...]: ...

    @property
    def dependencies(self) -> Mapping[str, str]:
        """The texts that it was parsed with: of all references, by name. Whoever codes values needs them."""
        ...

    @property
    def canonical(self) -> str:
        """The text as Confluent's registry stores and returns it: same meaning and order, printed one way."""
        ...

    @property
    def name(self) -> str | None:
        """The full name of the record or message, for the record-name strategies; None where it has none."""
        ...

    def normalized(self) -> str:
        """The text that is equal for schemas that differ only in what has no meaning (normalize=true)."""
        ...

    def formatted(self, wanted: str) -> str:
        """The text for the query parameter `format` ("" is canonical); unknown formats are as canonical."""
        ...

    def differences(self, writer: "ParsedSchema") -> list[Difference]:
        """What keeps a reader with this schema from reading what was written with `writer`; empty: it can.

        Heavy for large schemas: not on an event loop.
        """
        ...


class Language(Protocol):
    """What a language's package offers as `LANGUAGE`."""

    def parse(self, source: SchemaText, dependencies: Mapping[str, str]) -> ParsedSchema:
        """Understand a text; InvalidSchema if it cannot be understood.

        `dependencies` has the texts of all its references, also of theirs, by name, those that others use
        first.
        """
        ...


JsonValue = Any
"""What `json.loads` returns."""
