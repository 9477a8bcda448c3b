"""The OpenAPI document, from the tables of pages and changes: what is described is what exists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import moldau
from moldau.services.console.changes.change import Change, Field
from moldau.services.console.messages.exporting import FORMATS
from moldau.services.console.pages.messages import PARAMETERS
from moldau.services.console.pages.table import Page, Parameter

_NUMBERS = ("partition", "offset", "broker")
_TAGS = {"topics": "Topics and messages", "groups": "Groups", "brokers": "Brokers"}


def document(pages: Iterable[Page], changes: Iterable[Change]) -> dict[str, Any]:
    """The whole document."""
    paths: dict[str, Any] = {}
    for page in pages:
        path = "/api/overview" if page.path == "/" else f"/api{page.path}"
        paths.setdefault(path, {})["get"] = {
            "operationId": page.name,
            "summary": page.summary,
            "tags": [_TAGS.get(page.section, page.section.capitalize())],
            "parameters": [*_in_path(path), *(_in_query(each) for each in page.parameters)],
            "responses": _answers("What the page shows", {"type": "object"}),
        }
    for change in changes:
        path = f"/api{change.path}"
        paths.setdefault(path, {})["post"] = {
            "operationId": change.name,
            "summary": change.summary,
            "description": "With dry_run the answer says what would happen, and nothing is changed.",
            "tags": ["Changes"],
            "parameters": _in_path(path),
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": _body(change)}},
            },
            "responses": _answers(
                "The plan and, without dry_run, what was done", {"$ref": "#/components/schemas/Plan"}
            ),
        }
    paths["/api/topics/{topic}/export"] = {"get": _export()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Moldau console",
            "version": moldau.__version__,
            "description": "What the console's pages show, and the changes that they make.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": {"Plan": _PLAN, "Problem": _PROBLEM}},
    }


def _in_path(path: str) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "integer", "minimum": 0} if name in _NUMBERS else {"type": "string"},
        }
        for name in re.findall(r"\{(\w+)\}", path)
    ]


def _in_query(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.help,
        "schema": dict(parameter.schema or {"type": "string"}),
    }


def _export() -> dict[str, Any]:
    form = Parameter("format", "JSON lines or CSV.", {"type": "string", "enum": list(FORMATS)})
    limit = Parameter("limit", "The most records.", {"type": "integer", "minimum": 1})
    kept = [each for each in PARAMETERS if each.name not in ("limit", "scan")]
    return {
        "operationId": "export",
        "summary": "Records of a topic as a stream",
        "tags": [_TAGS["topics"]],
        "parameters": [*_in_path("{topic}"), *(_in_query(each) for each in (form, limit, *kept))],
        "responses": {
            "200": {
                "description": "The records",
                "content": {
                    each.partition(";")[0]: {"schema": {"type": "string"}} for each in FORMATS.values()
                },
            },
            "default": _problem(),
        },
    }


def _body(change: Change) -> dict[str, Any]:
    properties: dict[str, Any] = {each.name: _property(each) for each in change.fields}
    properties["dry_run"] = {"type": "boolean", "description": "Only say what would happen."}
    properties["digest"] = {
        "type": "string",
        "description": "Carry out only if the plan still has this digest.",
    }
    required = [each.name for each in change.fields if each.required or each.must_be_named]
    found = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**found, "required": required} if required else found


def _property(field: Field) -> dict[str, Any]:
    found: dict[str, Any] = {"description": f"{field.label}. {field.help}".strip()}
    if field.kind == "number":
        found["type"] = ["integer", "string"]
    elif field.name == "settings":
        found["type"] = ["object", "string"]
    elif field.kind == "choice":
        found |= {"type": "string", "enum": [value for value, _ in field.choices]}
    else:
        found["type"] = ["string", "integer"]
    return found


def _answers(what: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "200": {"description": what, "content": {"application/json": {"schema": schema}}},
        "default": _problem(),
    }


def _problem() -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": "Why not", "content": {"application/json": {"schema": schema}}}


_PLAN = {
    "type": "object",
    "required": ["title", "lines", "warnings", "digest"],
    "properties": {
        "title": {"type": "string"},
        "lines": {"type": "array", "items": {"type": "string"}},
        "warnings": {"type": "array", "items": {"type": "string"}},
        "columns": {"type": "array", "items": {"type": "string"}},
        "table": {"type": "array", "items": {"type": "array", "items": {}}},
        "dangerous": {"type": "boolean"},
        "digest": {"type": "string"},
        "done": {"type": "string"},
        "link": {"type": "string"},
        "undo": {"type": "string"},
    },
}
_PROBLEM = {
    "type": "object",
    "required": ["error_code", "message"],
    "properties": {"error_code": {"type": "integer"}, "message": {"type": "string"}},
}
