"""Files that may be imported without a reference, because every registry and serializer knows them.

google/protobuf and google/type come from their Python packages; those of Confluent are short and are here.
Each is loaded when it is first named.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module

from moldau.schemas.protobuf.elements import File

_GOOGLE_PROTOBUF = (
    "any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp",
    "type", "wrappers",
)  # fmt: skip
_GOOGLE_TYPE = (
    "calendar_period", "color", "date", "datetime", "dayofweek", "decimal", "expr", "fraction", "interval",
    "latlng", "money", "month", "phone_number", "postal_address", "quaternion", "timeofday",
)  # fmt: skip

META = "confluent/meta.proto"
META_FIELD_NUMBER = 1088
"""The extension in which Confluent's serializers keep documentation, parameters and tags."""

_META_OF = {
    "FileOptions": "file_meta",
    "MessageOptions": "message_meta",
    "FieldOptions": "field_meta",
    "EnumOptions": "enum_meta",
    "EnumValueOptions": "enum_value_meta",
}
_CONFLUENT = {
    META: 'syntax = "proto3"; package confluent; import "google/protobuf/descriptor.proto"; '
    'option java_package = "io.confluent.protobuf"; option java_outer_classname = "MetaProto"; '
    "message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; } "
    + " ".join(
        f"extend google.protobuf.{target} {{ Meta {name} = {META_FIELD_NUMBER}; }}"
        for target, name in _META_OF.items()
    ),
    "confluent/type/decimal.proto": 'syntax = "proto3"; package confluent.type; '
    'option java_package = "io.confluent.protobuf.type"; option java_multiple_files = true; '
    'option java_outer_classname = "DecimalProto"; message Decimal { bytes value = 1; int32 scale = 2; }',
    "confluent/type/variant.proto": 'syntax = "proto3"; package confluent.type; '
    'option java_package = "io.confluent.protobuf.type"; option java_multiple_files = true; '
    'option java_outer_classname = "VariantProto"; message Variant { bytes metadata = 1; bytes value = 2; }',
}
_MODULES = {
    **{f"google/protobuf/{name}.proto": f"google.protobuf.{name}_pb2" for name in _GOOGLE_PROTOBUF},
    **{f"google/type/{name}.proto": f"google.type.{name}_pb2" for name in _GOOGLE_TYPE},
}
KNOWN_IMPORTS = frozenset((*_MODULES, *_CONFLUENT))
_PACKAGES = {
    "google.protobuf": [name for name in _MODULES if name.startswith("google/protobuf/")],
    "google.type": [name for name in _MODULES if name.startswith("google/type/")],
    "confluent.type": [name for name in _CONFLUENT if name != META],
    "confluent": [META],
}


def known_names_of(name: str, package: str) -> Iterator[str]:
    """The files which may define a name that is used in a package."""
    around = package.split(".")
    candidates = [name, *(".".join((*around[:count], name)) for count in range(1, len(around) + 1))]
    for known, locations in _PACKAGES.items():
        if any(each.startswith(known + ".") for each in candidates):
            yield from locations


def serialized(location: str) -> bytes | None:
    """The FileDescriptorProto of a file that Google's packages have."""
    module = _MODULES.get(location)
    if module is None:
        return None
    packed: bytes = import_module(module).DESCRIPTOR.serialized_pb
    return packed


@lru_cache(maxsize=64)
def known_file(location: str) -> File:
    """A known file. KeyError if it is not one."""
    packed = serialized(location)
    if packed is not None:
        from moldau.schemas.protobuf.from_descriptor import file_of_descriptor

        return file_of_descriptor(packed)
    from moldau.schemas.protobuf.parser import parse_text

    return parse_text(_CONFLUENT[location])
