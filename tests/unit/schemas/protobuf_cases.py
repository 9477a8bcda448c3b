"""Files and pairs of files; confluent_protobuf.json has what Confluent's own Java makes of them.

Where the newest source of Confluent's registry differs from the version whose Java runs here (7.0.16),
NEWER_PRINTS and NEWER_DIFFERENCES have what is expected instead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

ANSWERS = Path(__file__).with_name("confluent_protobuf.json")

ITEM = (
    'syntax = "proto3"; package stock; message Item { string name = 1; Size size = 2; '
    "enum Size { S = 0; L = 1; } }"
)
ITEM_2 = ITEM.replace("string name", "int32 name")


class File(NamedTuple):
    """A file and what it imports."""

    text: str
    references: Mapping[str, tuple[str, int]] = MappingProxyType({})

    def question(self) -> dict[str, Any]:
        """What the Java class reads."""
        return {
            "schema": self.text,
            "references": {
                name: {"schema": text, "version": version}
                for name, (text, version) in self.references.items()
            },
        }


def p3(body: str, **references: tuple[str, int]) -> File:
    """A file of proto3."""
    return File('syntax = "proto3";\n' + body, references)


def p2(body: str) -> File:
    """A file of proto2."""
    return File('syntax = "proto2";\n' + body)


PRINTS: dict[str, File] = {
    "empty": File(""),
    "only a comment": File("// nothing\n/* at all */"),
    "no syntax": File("message A { optional string a = 1; }"),
    "enum only": p3("enum E { option deprecated = true; A = 0; B = 0x10; C = -1 [deprecated = true]; }"),
    "comments everywhere": p3(
        "/* a */ package x.y; // d\nmessage A { // e\n string a = 1; /* f */\n/* g\n h */ }"
    ),
    "messages and enums in turn": p3(
        "enum E { A = 0; } message M { enum F { B = 0; } message N {} string a = 1; } "
        "enum G { C = 0; } message O {}"
    ),
    "imports and options": File(
        'syntax = "proto3"; package a.b; import "stock/item.proto"; import public '
        '"google/protobuf/timestamp.proto";'
        'option java_package = "a.b.c"; option java_multiple_files = true; option optimize_for = SPEED;'
        "option go_package = 'x/\"y\"'; message A { stock.Item item = 1; google.protobuf.Timestamp at = 2; }",
        {"stock/item.proto": (ITEM, 1)},
    ),
    "all scalars": p3(
        "message A { double a = 1; float b = 2; int32 c = 3; int64 d = 4; uint32 e = 5; uint64 f = 6; "
        "sint32 g = 7;"
        "sint64 h = 8; fixed32 i = 9; fixed64 j = 10; sfixed32 k = 11; sfixed64 l = 12; bool m = 13; "
        "string n = 14;"
        "bytes o = 15; optional string p = 16; repeated int32 q = 17 [packed = false]; }"
    ),
    "fields out of order": p3(
        "message A { string c = 3; string a = 1; oneof z { string y = 9; string x = 8; }"
        "oneof b { string d = 5; string e = 4; } string f = 2; }"
    ),
    "maps": p3(
        "message A { map<string, B> a = 1; map < int32 , .x.y > b = 2; map<bool,bytes> c = 3; message B {} }"
        "message x { message y {} }"
    ),
    "a map's entry, as descriptors have it": p3(
        "package a; message M { repeated .a.M.TagsEntry tags = 1; repeated FewEntry few = 2; message "
        "TagsEntry {"
        "option map_entry = true; string key = 1; .a.V value = 2; } message FewEntry { option map_entry = "
        "true;"
        "int32 key = 1; string value = 2; } message Other {} } message V {}"
    ),
    "names inside out": p3(
        "package a.b; message A { B one = 1; A.B two = 2; a.b.A.B three = 3; .a.b.B four = 4; C.B five = 5;"
        "message B { B self = 1; } message C { B inner = 1; message B {} } } message B {}"
    ),
    "reserved": p3(
        "message A { reserved 9, 2 to 4, 15; reserved \"b\", 'a'; string x = 1; reserved 20 to max; }"
    ),
    "proto2": p2(
        "message A { required string a = 1; optional int32 b = 2 [default = -5]; repeated bool c = 3 "
        "[packed = true];"
        'optional bool d = 4 [default = true]; optional E e = 5 [default = Y, json_name = "EE", deprecated '
        "= true];"
        'optional string s = 6 [default = "it\'s \\"it\\"\\n\\x41\\101"]; optional double f = 7 [default = '
        "inf];"
        "optional float g = 8 [default = 1.50]; optional int64 h = 9 [default = 0x1F]; enum E { X = 0; Y = "
        "1; } }"
    ),
    "options in all forms": p3(
        'option (one) = 1; option (one.two) = "s"; option (three).four = true; option (five).six.seven = 1.5;'
        'option (map) = { a: 1, b: "x" c: FOO; d { e: true } f: [1, 2] g: [{h: 1}, {h: 2}] };'
        'message A { option (m) = { a: -1 a: 2 }; string a = 1 [(f) = "x", (g).h = 2, deprecated = true];'
        'string b = 2 [(l) = [1, "x", Y]]; }'
    ),
    "adjoining strings": p3('option java_package = "a." \'b\'\n ".c"; message A { }'),
    "services": p3(
        "package s; service S { option deprecated = true; rpc One (A) returns (.s.A); rpc Two (stream A) "
        "returns "
        "(stream A) { option idempotency_level = IDEMPOTENT; option deprecated = false; } rpc Three(A) "
        "returns(A) {} }"
        "message A {}"
    ),
    "an empty message in each place": p3("message A {} message B { message C {} } message D { oneof e {} }"),
    "empty statements": p3(";;message A { ; string a = 1; ; } ; enum E { A = 0; ; };"),
    "words as names": p3(
        "message message { string string = 1; int32 map = 2; bool optional = 3; bytes syntax = 4;"
        "string package = 5; string reserved = 6; }"
    ),
    "deep": p3(
        "message A { message B { message C { message D { option deprecated = true; reserved 1; string a = 2;"
        "oneof o { string b = 3; } } D d = 1; } C c = 1; } B b = 1; }"
    ),
    "confluent's own options": p3(
        'import "confluent/meta.proto"; message A { option (confluent.message_meta).doc = "d";'
        'bytes b = 1 [(confluent.field_meta) = { params: [{ value: "8", key: "precision" }], tags: "PII" '
        "}]; }"
    ),
    "extensions": p2(
        "message A { extensions 100 to 199, 500; optional int32 x = 1; extensions 1000 to max; }"
        "extend A { optional string more = 100; repeated int32 others = 101; }"
    ),
    "groups": p2(
        "message A { repeated group Line = 1 { optional string text = 2; required int32 n = 1; }"
        "oneof o { group Part = 3 { optional int32 y = 1; } } }"
    ),
    "a required field in proto3": p3("message A { required string a = 1; }"),
    "a map with a label": p3("message A { repeated map<string, string> a = 1; }"),
    "a field of proto2 without a label": p2("message A { string a = 1; }"),
    "no such syntax": File('syntax = "proto4"; message A {}'),
    "syntax comes late": File('message A {} syntax = "proto3";'),
    "no number": p3("message A { string a; }"),
    "not closed": p3("message A { string a = 1;"),
    "closed twice": p3("message A { } }"),
    "no text": File("lorem ipsum"),
    "avro": File('{"type": "record", "name": "A", "fields": []}'),
    "a string that does not end": p3('option java_package = "abc; message A {}'),
    "two packages": p3("package a; package b; message A {}"),
    "an extension in a group": p2(
        "message A { optional group G = 1 { extend A { optional int32 a = 2; } } }"
    ),
}
"""What is printed, or refused."""

NEWER_PRINTS: dict[str, dict[str, str]] = {
    # No section for oneofs that are left out.
    "an empty message in each place": {"D {\n}": "D {}"},
    # Numbers in one form.
    "proto2": {"1.50];": "1.5];", "0x1F": "31"},
    # `(a).b = c` as a map.
    "confluent's own options": {
        '(confluent.message_meta).doc = "d";': '(confluent.message_meta) = {\n    doc: "d"\n  };'
    },
    # Ranges one by one, extended messages in full.
    "extensions": {"199, 500;": "199;\n  extensions 500;", "extend A": "extend .A"},
    # Fields of groups by number; and, other than there, a oneof of groups is kept.
    "groups": {
        "    optional string text = 2;\n    required int32 n = 1;": "    required int32 n = 1;\n"
        "    optional string text = 2;",
        "message A {\n\n": "message A {\n  oneof o {\n    group Part = 3 {\n      optional int32 y = 1;\n  "
        "  }\n"
        "  }\n\n",
    },
}
"""By name, what the newest registry puts in place of what in the normal form."""

_A = "message A { string a = 1; int32 b = 2; }"
PAIRS: dict[str, tuple[File, File]] = {
    "nothing changed": (p3(_A), p3(_A)),
    "package": (p3("package a;" + _A), p3("package b;" + _A)),
    "package given": (p3(_A), p3("package b;" + _A)),
    "message added": (p3(_A + "message B {}"), p3(_A)),
    "messages in another order": (p3("message B {}" + _A), p3(_A + "message B {}")),
    "inner message added": (
        p3("message A { message B {} string a = 1; }"),
        p3("message A { string a = 1; }"),
    ),
    "enum added": (p3(_A + "enum E { X = 0; }"), p3(_A)),
    "enum constant added": (p3("enum E { X = 0; Y = 1; }"), p3("enum E { X = 0; }")),
    "enum constant renamed": (p3("enum E { X = 0; Y = 1; }"), p3("enum E { X = 0; Z = 1; }")),
    "field added": (p3("message A { string a = 1; int32 b = 2; bool c = 3; }"), p3(_A)),
    "field renamed": (p3("message A { string z = 1; int32 b = 2; }"), p3(_A)),
    "required field added": (
        p2("message A { optional string a = 1; required int32 b = 2; }"),
        p2("message A { optional string a = 1; }"),
    ),
    "label changed": (p3("message A { repeated string a = 1; repeated int32 b = 2; }"), p3(_A)),
    "int to long": (p3("message A { string a = 1; int64 b = 2; }"), p3(_A)),
    "int to bool": (p3("message A { string a = 1; bool b = 2; }"), p3(_A)),
    "int to sint": (p3("message A { string a = 1; sint32 b = 2; }"), p3(_A)),
    "string to bytes": (p3("message A { bytes a = 1; int32 b = 2; }"), p3(_A)),
    "string to int": (p3("message A { int32 a = 1; int32 b = 2; }"), p3(_A)),
    "fixed32 to sfixed32": (p3("message A { sfixed32 a = 1; }"), p3("message A { fixed32 a = 1; }")),
    "fixed32 to fixed64": (p3("message A { fixed64 a = 1; }"), p3("message A { fixed32 a = 1; }")),
    "float to double": (p3("message A { double a = 1; }"), p3("message A { float a = 1; }")),
    "enum to int": (
        p3("message A { int32 a = 1; } enum E { X = 0; }"),
        p3("message A { E a = 1; } enum E { X = 0; }"),
    ),
    "enum to string": (
        p3("message A { string a = 1; } enum E { X = 0; }"),
        p3("message A { E a = 1; } enum E { X = 0; }"),
    ),
    "enum to another enum": (
        p3("message A { E a = 1; } enum E { X = 0; } enum F { Y = 0; }"),
        p3("message A { F a = 1; } enum E { X = 0; } enum F { Y = 0; }"),
    ),
    "scalar to message": (
        p3("message A { B a = 1; } message B {}"),
        p3("message A { string a = 1; } message B {}"),
    ),
    "message to another message": (
        p3("message A { B a = 1; } message B {} message C {}"),
        p3("message A { C a = 1; } message B {} message C {}"),
    ),
    "message to map": (
        p3("message A { map<string, B> a = 1; } message B {}"),
        p3("message A { B a = 1; } message B {}"),
    ),
    "map's key": (
        p3("message A { map<int32, string> a = 1; }"),
        p3("message A { map<string, string> a = 1; }"),
    ),
    "map's value": (
        p3("message A { map<string, int32> a = 1; }"),
        p3("message A { map<string, int64> a = 1; }"),
    ),
    "map as its entry": (
        p3("message A { map<string, int32> a = 1; }"),
        p3(
            "message A { repeated AEntry a = 1; message AEntry { option map_entry = true; string key = 1;"
            "int32 value = 2; } }"
        ),
    ),
    "map as its entry, another value": (
        p3("message A { map<string, string> a = 1; }"),
        p3(
            "message A { repeated AEntry a = 1; message AEntry { option map_entry = true; string key = 1;"
            "int32 value = 2; } }"
        ),
    ),
    "inside a recursive message": (
        p3("message A { A a = 1; B b = 2; message B { A c = 1; int32 d = 2; } }"),
        p3("message A { A a = 1; B b = 2; message B { A c = 1; string d = 2; } }"),
    ),
    "type named in full": (
        p3("package p; message A { .p.B a = 1; p.B b = 2; } message B {}"),
        p3("package p; message A { B a = 1; B b = 2; } message B {}"),
    ),
    "oneof added": (
        p3("message A { string a = 1; oneof o { int32 c = 3; int32 d = 4; } }"),
        p3("message A { string a = 1; }"),
    ),
    "oneof field added": (
        p3("message A { oneof o { string a = 1; int32 b = 2; } }"),
        p3("message A { oneof o { string a = 1; } }"),
    ),
    "oneof's field changed": (
        p3("message A { oneof o { int32 a = 1; } }"),
        p3("message A { oneof o { string a = 1; } }"),
    ),
    "one field into a new oneof": (p3("message A { oneof o { string a = 1; } int32 b = 2; }"), p3(_A)),
    "two fields into a new oneof": (p3("message A { oneof o { string a = 1; int32 b = 2; } }"), p3(_A)),
    "a field into an existing oneof": (
        p3("message A { oneof o { string a = 1; int32 b = 2; } }"),
        p3("message A { string a = 1; oneof o { int32 b = 2; } }"),
    ),
    "oneof renamed": (
        p3("message A { oneof p { string a = 1; } }"),
        p3("message A { oneof o { string a = 1; } }"),
    ),
    "oneof renamed, type changed": (
        p3("message A { oneof p { int32 a = 1; } }"),
        p3("message A { oneof o { string a = 1; } }"),
    ),
    "oneofs joined": (
        p3("message A { oneof o { string a = 1; int32 b = 2; } }"),
        p3("message A { oneof o { string a = 1; } oneof p { int32 b = 2; } }"),
    ),
    "some of a oneof gone": (
        p3("message A { string a = 1; }"),
        p3("message A { oneof o { string a = 1; int32 b = 2; } }"),
    ),
    "reference at the same version": (
        p3("message A { stock.Item a = 1; }", **{"item.proto": (ITEM, 1)}),
        p3("message A { stock.Item a = 1; }", **{"item.proto": (ITEM, 1)}),
    ),
    "reference at another version": (
        p3("message A { stock.Item a = 1; }", **{"item.proto": (ITEM_2, 2)}),
        p3("message A { stock.Item a = 1; }", **{"item.proto": (ITEM, 1)}),
    ),
    "reference at another version, alike": (
        p3("message A { stock.Item a = 1; }", **{"item.proto": (ITEM, 2)}),
        p3("message A { stock.Item a = 1; }", **{"item.proto": (ITEM, 1)}),
    ),
    "known type to another": (
        p3('import "google/protobuf/timestamp.proto"; message A { google.protobuf.Timestamp a = 1; }'),
        p3('import "google/protobuf/duration.proto"; message A { google.protobuf.Duration a = 1; }'),
    ),
}
"""Reader and writer; each is also compared the other way around."""

NEWER_DIFFERENCES: dict[str, list[tuple[str, str]]] = {
    "oneof added": [
        ("ONEOF_ADDED", "#/A/o"),
        ("ONEOF_FIELD_ADDED", "#/A/o/3"),
        ("ONEOF_FIELD_ADDED", "#/A/o/4"),
    ],
    "a field into an existing oneof": [("FIELD_MOVED_TO_EXISTING_ONEOF", "#/A/o")],
    "oneof renamed, type changed": [
        ("ONEOF_REMOVED", "#/A/o"),
        ("ONEOF_ADDED", "#/A/p"),
        ("FIELD_SCALAR_KIND_CHANGED", "#/A/p/1"),
    ],
    "oneofs joined": [("FIELD_MOVED_TO_EXISTING_ONEOF", "#/A/o"), ("ONEOF_REMOVED", "#/A/p")],
    "some of a oneof gone": [
        ("ONEOF_REMOVED", "#/A/o"),
        ("ONEOF_FIELD_MOVED_TO_TOP_LEVEL", "#/A/1"),
        ("ONEOF_FIELD_REMOVED", "#/A/o/2"),
    ],
    "<one field into a new oneof": [
        ("ONEOF_REMOVED", "#/A/o"),
        ("ONEOF_FIELD_MOVED_TO_TOP_LEVEL", "#/A/1"),
    ],
    "<two fields into a new oneof": [
        ("ONEOF_REMOVED", "#/A/o"),
        ("ONEOF_FIELD_MOVED_TO_TOP_LEVEL", "#/A/1"),
        ("ONEOF_FIELD_MOVED_TO_TOP_LEVEL", "#/A/2"),
    ],
    "<a field into an existing oneof": [("ONEOF_FIELD_MOVED_TO_TOP_LEVEL", "#/A/1")],
    "<oneof renamed, type changed": [
        ("ONEOF_ADDED", "#/A/o"),
        ("ONEOF_REMOVED", "#/A/p"),
        ("FIELD_SCALAR_KIND_CHANGED", "#/A/o/1"),
    ],
    "<oneofs joined": [("ONEOF_ADDED", "#/A/p")],
    "<some of a oneof gone": [("ONEOF_ADDED", "#/A/o"), ("ONEOF_FIELD_ADDED", "#/A/o/2")],
}
"""By name ("<" in front: the other way around), what the newest registry finds.

It compares fields by number over the whole message, whatever oneof they are in.
"""


def pairs() -> dict[str, tuple[File, File]]:
    """All pairs, both ways."""
    return {
        **PAIRS,
        **{f"<{name}": (writer, reader) for name, (reader, writer) in PAIRS.items()},
    }


def questions() -> list[dict[str, Any]]:
    """What the Java class is asked."""
    return [
        *(file.question() for file in PRINTS.values()),
        *({"reader": r.question(), "writer": w.question()} for r, w in pairs().values()),
    ]


def recorded() -> dict[str, dict[str, Any]]:
    """The answers, by name: of PRINTS, and of pairs()."""
    answers: dict[str, dict[str, Any]] = json.loads(ANSWERS.read_text(encoding="utf-8"))
    return answers
