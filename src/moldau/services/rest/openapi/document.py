"""The OpenAPI document, from v3's table of operations and v2's.

OpenAPI 3.0, which generators of clients know best. Every operation may also answer an Error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import moldau
from moldau.services.rest.openapi import v2
from moldau.services.rest.openapi.schemas import SCHEMAS
from moldau.services.rest.openapi.types import Schema, ref
from moldau.services.rest.request_limits import ServedOperations
from moldau.services.rest.v2.routes import ROUTES, resource_names
from moldau.services.rest.v3.operations import Operation, Query
from moldau.services.rest.v3.resource_names import resource_name
from moldau.services.rest.v3.routes import operations

_NUMBERS = ("partition_id", "broker_id")
_JSON = "application/json"
_EVENTS = "text/event-stream"
_STREAMED = "produceRecord"
_STREAMED_WORDS = (
    "Records may follow each other in one body, which may stay open. Each is answered in turn, also while "
    "the body still comes. The error_code of an answer is 200 if its record was written."
)


@cache
def document() -> Mapping[str, Any]:
    """The document; the same object each time."""
    paths: dict[str, dict[str, Any]] = {}
    for each in operations():
        paths.setdefault("/v3" + each.path, {})[each.method.lower()] = _operation(each)
    for path, methods in v2.paths().items():
        paths[path] = dict(methods)
    tags = sorted({tag for path in paths.values() for each in path.values() for tag in each["tags"]})
    return {
        "openapi": "3.0.3",
        "info": {
            "title": "Moldau REST proxy",
            "version": moldau.__version__,
            "description": "Kafka over HTTP: Confluent's API in versions 2 and 3, reading without a session, "
            "and a live tail.",
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in tags],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": {**SCHEMAS, **v2.SCHEMAS},
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
        "security": [{}, {"basic": []}, {"bearer": []}],
    }


def served_document(served: ServedOperations, *, v2_enabled: bool, v3_enabled: bool) -> Mapping[str, Any]:
    """The document without the operations that a proxy's settings leave out."""
    names: dict[tuple[str, str], tuple[str, ...]] = {}
    if v3_enabled:
        names |= {("/v3" + each.path, each.method): (resource_name(each),) for each in operations()}
    if v2_enabled:
        names |= {(path, method): resource_names(name) for method, path, name, _ in ROUTES}
    paths = {}
    for path, methods in document()["paths"].items():
        kept = {
            method: described
            for method, described in methods.items()
            if (key := (path, method.upper())) in names and served.is_served(names[key])
        }
        if kept:
            paths[path] = kept
    return {**document(), "paths": paths}


def _operation(each: Operation) -> dict[str, Any]:
    made: dict[str, Any] = {"operationId": each.operation_id, "summary": each.summary, "tags": [each.tag]}
    if each.operation_id == _STREAMED:
        made["description"] = _STREAMED_WORDS
    parameters = [_path_parameter(name) for name in re.findall(r"{(\w+)}", each.path)]
    parameters += [_query_parameter(query) for query in each.query]
    if parameters:
        made["parameters"] = parameters
    if each.body is not None:
        made["requestBody"] = {"required": True, "content": {_JSON: {"schema": ref(each.body)}}}
    made["responses"] = {
        str(status): _response(status, name, each.media_types) for status, name in each.answers.items()
    }
    made["responses"]["default"] = {
        "description": "An error; the first digits of error_code are the HTTP status.",
        "content": {_JSON: {"schema": ref("Error")}},
    }
    return made


def _path_parameter(name: str) -> dict[str, Any]:
    schema: Schema = {"type": "integer", "format": "int32"} if name in _NUMBERS else {"type": "string"}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameter(query: Query) -> dict[str, Any]:
    schema = ref(query.schema) if isinstance(query.schema, str) else query.schema
    return {
        "name": query.name,
        "in": "query",
        "required": query.required,
        "description": query.description,
        "schema": schema,
    }


def _response(status: int, name: str | None, media_types: tuple[str, ...]) -> dict[str, Any]:
    words = {200: "OK", 201: "Created", 204: "Done", 207: "What happened to each"}
    made: dict[str, Any] = {"description": words.get(status, "OK")}
    if name is not None:
        made["content"] = {
            each: {"schema": {"type": "string"} if each == _EVENTS else ref(name)} for each in media_types
        }
    return made
