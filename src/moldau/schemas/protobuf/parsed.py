"""A parsed Protobuf schema behind the interface of all languages (`moldau.schemas.schema.ParsedSchema`)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from functools import cached_property

from moldau.schemas.protobuf.elements import File
from moldau.schemas.protobuf.from_descriptor import file_of_descriptor
from moldau.schemas.protobuf.parser import TEXT_CHARACTERS_MAX, parse_text
from moldau.schemas.protobuf.printer import canonical_text
from moldau.schemas.schema import Difference, InvalidSchema, ParsedSchema, Reference, SchemaText, SchemaType

PACKAGE_CHARACTERS_MAX = 1_000
"""Names are looked up in a package and all around it: a long one costs time for each."""
DEPENDENCIES_CHARACTERS_MAX = 8 * TEXT_CHARACTERS_MAX


def parse_any(text: str) -> File:
    """Parse a text, or a FileDescriptorProto in base64. InvalidSchema."""
    file = _parse(text)
    if len(file.package or "") > PACKAGE_CHARACTERS_MAX:
        raise InvalidSchema(f"the package has over {PACKAGE_CHARACTERS_MAX} characters")
    return file


def _parse(text: str) -> File:
    try:
        return parse_text(text)
    except InvalidSchema as problem:
        if len(text) > TEXT_CHARACTERS_MAX or not text:
            raise
        try:
            packed = base64.b64decode(text, validate=True)
            # A descriptor's names may be any text. What is kept is the file that it is printed as.
            return parse_text(canonical_text(file_of_descriptor(packed)))
        except (binascii.Error, ValueError):
            raise problem from None


class ProtobufSchema:
    """One file, with the files that it stands on."""

    schema_type = SchemaType.PROTOBUF

    def __init__(
        self, file: File, references: tuple[Reference, ...], dependencies: Mapping[str, str]
    ) -> None:
        self.file = file
        self.references = references
        self.dependencies = dependencies

    @cached_property
    def canonical(self) -> str:
        """The text as Confluent's registry prints it."""
        return canonical_text(self.file)

    @property
    def name(self) -> str | None:
        """The full name of the first message, or of the first enum if there is none."""
        types = self.file.messages or self.file.types
        if not types:
            return None
        return f"{self.file.package}.{types[0].name}" if self.file.package else types[0].name

    @cached_property
    def dependency_files(self) -> Mapping[str, File]:
        """The files of `dependencies`, parsed. InvalidSchema if one cannot be."""
        if sum(map(len, self.dependencies.values())) > DEPENDENCIES_CHARACTERS_MAX:
            raise InvalidSchema(f"the references have over {DEPENDENCIES_CHARACTERS_MAX} characters together")
        files = {}
        for name, text in self.dependencies.items():
            try:
                files[name] = parse_any(text)
            except InvalidSchema as problem:
                raise InvalidSchema(f"reference {name}: {problem}") from None
        return files

    def normalized(self) -> str:
        """The text for normalize=true. InvalidSchema if it uses a type that is not defined."""
        from moldau.schemas.protobuf.normalizing import Normalizing
        from moldau.schemas.protobuf.scopes import types_of

        types = types_of(self.file, self.references, self.dependency_files)
        return Normalizing(types).print_file(self.file)

    def formatted(self, wanted: str) -> str:
        """`serialized`: a FileDescriptorProto in base64; `ignore_extensions`: without them; or canonical."""
        if wanted.lower() == "serialized":
            from moldau.schemas.protobuf.descriptors import file_descriptor

            packed: bytes = file_descriptor(self).SerializeToString(deterministic=True)
            return base64.b64encode(packed).decode()
        if wanted.lower() == "ignore_extensions":
            from moldau.schemas.protobuf.normalizing import WithoutExtensions

            return WithoutExtensions().print_file(self.file)
        return self.canonical

    def differences(self, writer: ParsedSchema) -> list[Difference]:
        """What keeps this schema from reading what was written with `writer`."""
        from moldau.schemas.protobuf.comparing import incompatible_differences

        if not isinstance(writer, ProtobufSchema):
            raise TypeError(f"a Protobuf schema is compared with one of {writer.schema_type}")
        return incompatible_differences(self, writer)


class ProtobufLanguage:
    """Parses Protobuf."""

    def parse(self, source: SchemaText, dependencies: Mapping[str, str]) -> ProtobufSchema:
        """Understand a text or a descriptor in base64; every type that it uses must be defined."""
        parsed = ProtobufSchema(parse_any(source.text), source.references, dict(dependencies))
        parsed.normalized()
        return parsed
