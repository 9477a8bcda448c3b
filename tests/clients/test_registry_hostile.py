"""Hostile bodies to a registry: each ends in a refusal or an answer, and the next request is served."""

import gzip
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from moldau.testing import SchemaRegistry

MIB = 1024 * 1024
PROTO = 'syntax = "proto3"; message M {'
LONG = "x" * 900


@pytest.fixture(scope="module")
def registry(bootstrap: str) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(bootstrap, {"kafkastore.topic": "_schemas_hostile"}) as running:
        yield running


def _record(fields: list[Any]) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": fields})


def _deep(opening: str, closing: str, depth: int, inside: str) -> str:
    return opening * depth + inside + closing * depth


BODIES = {
    "avro arrays 100,000 deep": {"schema": _deep('{"type":"array","items":', "}", 100_000, '"int"')},
    "avro of 10 MB": {
        "schema": _record([{"name": f"f{n}", "type": "int", "doc": LONG} for n in range(10_500)])
    },
    "avro with a name of 10 MB": {"schema": _record([{"name": "f" * 10 * MIB, "type": "int"}])},
    "avro union of 20,000": {
        "schema": json.dumps([{"type": "fixed", "name": f"F{n}", "size": n} for n in range(20_000)])
    },
    "avro fixed of a huge size": {"schema": '{"type":"fixed","name":"F","size":99999999999999999999}'},
    "json 100,000 deep": {"schemaType": "JSON", "schema": _deep('{"items":', "}", 100_000, "{}")},
    "json that is itself": {"schemaType": "JSON", "schema": '{"$ref":"#"}'},
    "json references in a circle": {
        "schemaType": "JSON",
        "schema": '{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}',
    },
    "json with a pattern without end": {
        "schemaType": "JSON",
        "schema": json.dumps({"type": "string", "pattern": "^(a+)+$", "default": "a" * 50_000 + "!"}),
    },
    "json enum of 200,000": {"schemaType": "JSON", "schema": json.dumps({"enum": list(range(200_000))})},
    "protobuf 20,000 deep": {"schemaType": "PROTOBUF", "schema": _deep("message M {", "}", 20_000, "")},
    "protobuf of 10 MB": {
        "schemaType": "PROTOBUF",
        "schema": PROTO + "".join(f"string f{n} = {n};" for n in range(1, 400_000)) + "}",
    },
    "protobuf that does not end": {"schemaType": "PROTOBUF", "schema": PROTO + " string a"},
    "protobuf that imports a file": {
        "schemaType": "PROTOBUF", "schema": 'syntax = "proto3"; import "/etc/passwd"; message M {}'
    },
    "protobuf as damaged base64": {"schemaType": "PROTOBUF", "schema": "CgdkZWZhdWx0EgRzaG9wIiEK/////w=="},
    "a language that is none": {"schemaType": "XML", "schema": "<a/>"},
    "a schema that is a number": {"schema": 7},
    "references that are none": {"schema": '"int"', "references": [7, None, {"name": 7}]},
    "a reference to itself": {
        "schema": '"int"', "references": [{"name": "x", "subject": "hostile", "version": 1}]
    },
    "half a character": {"schema": '{"type":"record","name":"R","fields":[],"doc":"\\ud800"}'},
    "an id that is no number": {"schema": '"int"', "id": "x"},
    "metadata that is none": {"schema": '"int"', "metadata": {"properties": [1]}},
    "5,000 rules": {
        "schema": '"string"',
        "ruleSet": {"domainRules": [{"name": f"r{n}", "kind": "CONDITION", "mode": "WRITE", "type": "CEL",
                                     "expr": "true"} for n in range(5_000)]},
    },
}  # fmt: skip


def _alive(registry: SchemaRegistry) -> None:
    answer = httpx.post(f"{registry.url}/subjects/alive/versions", json={"schema": '"long"'}, timeout=60)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("what", BODIES)
def test_hostile_schemas(registry: SchemaRegistry, what: str) -> None:
    for path in ("subjects/hostile/versions", "compatibility/subjects/alive/versions", "subjects/alive"):
        answer = httpx.post(f"{registry.url}/{path}", json=BODIES[what], timeout=90)
        assert answer.status_code in (200, 400, 404, 409, 413, 422), answer.text[:300]
        assert len(answer.content) < MIB or answer.status_code == 200
        if answer.status_code != 200:
            assert set(answer.json()) == {"error_code", "message"}
    httpx.delete(f"{registry.url}/subjects/hostile", timeout=60)
    _alive(registry)


def test_a_bomb_is_refused(registry: SchemaRegistry) -> None:
    packed = gzip.compress(b'{"schema":"' + bytes(200 * MIB))
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    answer = httpx.post(f"{registry.url}/subjects/s/versions", content=packed, headers=headers, timeout=60)
    assert answer.status_code == 413
    _alive(registry)


def test_what_a_schema_points_at_is_never_fetched(registry: SchemaRegistry, tmp_path: Any) -> None:
    asked: list[str] = []

    class Listening(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

    secret = tmp_path / "secret.json"
    secret.write_text('{"type":"object","properties":{"secret":{}}}')
    server = http.server.HTTPServer(("127.0.0.1", 0), Listening)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        here = f"http://127.0.0.1:{server.server_port}"
        for reference in (f"{here}/other.json", f"{here}/other.json#/a", secret.as_uri(), str(secret)):
            for schema in ({"$ref": reference}, {"$schema": reference}, {"$id": here, "$ref": "other.json"}):
                body = {"schemaType": "JSON", "schema": json.dumps(schema)}
                for path in ("subjects/points/versions", "compatibility/subjects/points/versions"):
                    answer = httpx.post(f"{registry.url}/{path}?verbose=true", json=body, timeout=60)
                    assert b'secret":{}' not in answer.content.replace(b"\\", b"")
        text = f'syntax = "proto3"; import "{secret}"; message M {{ secret s = 1; }}'
        body = {"schemaType": "PROTOBUF", "schema": text}
        answer = httpx.post(f"{registry.url}/subjects/p/versions", json=body, timeout=60)
        assert answer.status_code == 422
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert asked == []
    _alive(registry)


@pytest.mark.parametrize(
    "path",
    [
        "/subjects/%00",
        "/subjects/a%0Ab/versions",
        "/subjects/" + "x" * 10_000 + "/versions",
        "/subjects/s/versions/99999999999999999999",
        "/subjects/s/versions/-2",
        "/schemas/ids/-1",
        "/schemas/guids/not-a-guid",
        "/subjects?offset=-5&limit=99999999",
        "/subjects?subjectPrefix=%ff",
        "/contexts/%3A/subjects",
        "/contexts/a%3Ab/subjects",
        "/config/%F0%9F%98%80",
        "/schemas?ruleType=%00&latestOnly=maybe",
    ],
)
def test_odd_paths(registry: SchemaRegistry, path: str) -> None:
    for method in ("GET", "DELETE", "POST", "PUT"):
        answer = (
            httpx.request(method, registry.url + path, json={}, timeout=60)
            if method[0] == "P"
            else (httpx.request(method, registry.url + path, timeout=60))
        )
        assert answer.status_code < 500, (method, answer.text)
    _alive(registry)
