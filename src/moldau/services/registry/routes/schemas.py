"""/schemas: schemas by id and by GUID, all schemas, and the languages."""

import contextlib
from collections.abc import Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from moldau.services.http.answers import json_answer, json_list_answer, text_answer
from moldau.services.http.application import path_value
from moldau.services.registry.names import qualify
from moldau.services.registry.problems import RegistryProblem
from moldau.services.registry.routes.calls import (
    Calls,
    both,
    flag,
    paging,
    parsed_number,
    prefix_parameters,
    subject_parameter,
)


class SchemaRoutes:
    """The endpoints."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._service = calls.service

    def routes(self) -> Iterator[Route]:
        """Path by path."""
        yield from both("/schemas", self.schemas, "GET")
        yield from both("/schemas/types", self.types, "GET")
        yield from both("/schemas/ids/{id}", self.by_id, "GET")
        yield from both("/schemas/ids/{id}/schema", self.text_by_id, "GET")
        yield from both("/schemas/ids/{id}/subjects", self.subjects, "GET")
        yield from both("/schemas/ids/{id}/versions", self.versions, "GET")
        yield from both("/schemas/guids/{guid}", self.by_guid, "GET")
        yield from both("/schemas/guids/{guid}/ids", self.ids, "GET")

    async def types(self, request: Request) -> Response:
        """GET /schemas/types."""
        return json_answer(request, self._service.types())

    async def schemas(self, request: Request) -> Response:
        """GET /schemas [subjectPrefix, deleted, latestOnly, aliases, ruleType, offset, limit]."""
        prefixes = prefix_parameters(request)
        deleted, latest_only = flag(request, "deleted"), flag(request, "latestOnly")
        aliases, rule_type = flag(request, "aliases"), request.query_params.get("ruleType")
        offset, limit = paging(request)

        found = await self._calls.read(
            self._service.schemas,
            *prefixes,
            deleted=deleted,
            latest_only=latest_only,
            aliases=aliases,
            rule_type=rule_type,
            offset=offset,
            limit=limit,
            visible=self._calls.visible(request),
        )
        return json_list_answer(request, found)

    async def by_id(self, request: Request) -> Response:
        """GET /schemas/ids/{id} [subject, format, referenceFormat, fetchMaxId]."""
        return json_answer(request, await self._by_id(request))

    async def text_by_id(self, request: Request) -> Response:
        """GET /schemas/ids/{id}/schema: the schema's text alone."""
        return text_answer(request, (await self._by_id(request))["schema"])

    async def _by_id(self, request: Request) -> dict[str, Any]:
        schema_id, subject = _id(request), subject_parameter(request)
        await self._calls.check_id(request, schema_id, subject)
        wanted = request.query_params.get("format", "")
        reference_format = request.query_params.get("referenceFormat", "")
        fetch_max_id = flag(request, "fetchMaxId")
        is_plain = not wanted and not reference_format
        if is_plain and self._service.has_id(schema_id, subject):  # consumers ask so: no thread is worth it
            with contextlib.suppress(RegistryProblem):
                return self._service.schema_by_id(schema_id, subject, fetch_max_id=fetch_max_id)
        return await self._calls.find(
            self._service.schema_by_id,
            schema_id,
            subject,
            format=wanted,
            reference_format=reference_format,
            fetch_max_id=fetch_max_id,
        )

    async def subjects(self, request: Request) -> Response:
        """GET /schemas/ids/{id}/subjects [subject, deleted, offset, limit]."""
        schema_id, subject, deleted = _id(request), subject_parameter(request), flag(request, "deleted")
        offset, limit = paging(request)

        def fetch(offset: int, limit: int) -> list[str]:
            return self._service.subjects_of_id(
                schema_id, subject, deleted=deleted, offset=offset, limit=limit
            )

        visible = self._calls.may_read(request)
        found = await self._calls.find(self._calls.visible_page, fetch, visible, offset, limit)
        return json_answer(request, found)

    async def versions(self, request: Request) -> Response:
        """GET /schemas/ids/{id}/versions [subject, deleted, offset, limit]."""
        schema_id, subject, deleted = _id(request), subject_parameter(request), flag(request, "deleted")
        offset, limit = paging(request)

        def fetch(offset: int, limit: int) -> list[dict[str, Any]]:
            return self._service.versions_of_id(
                schema_id, subject, deleted=deleted, offset=offset, limit=limit
            )

        may_read = self._calls.may_read(request)
        found = await self._calls.find(
            self._calls.visible_page, fetch, lambda row: may_read(row["subject"]), offset, limit
        )
        return json_answer(request, found)

    async def by_guid(self, request: Request) -> Response:
        """GET /schemas/guids/{guid} [format]."""
        guid = path_value(request, "guid")
        await self._check_guid(request, guid)
        wanted = request.query_params.get("format", "")
        return json_answer(request, await self._calls.find(self._service.schema_by_guid, guid, format=wanted))

    async def ids(self, request: Request) -> Response:
        """GET /schemas/guids/{guid}/ids."""
        guid = path_value(request, "guid")
        await self._check_guid(request, guid)
        return json_answer(request, await self._calls.find(self._service.ids_of_guid, guid))

    async def _check_guid(self, request: Request, guid: str) -> None:
        """By its ids: who may read a subject of one may read the schema."""
        if self._calls.rights.unlimited:
            return
        rows = await self._calls.find(self._service.ids_of_guid, guid)
        may_read = self._calls.may_read(request)
        for row in rows:
            context = qualify(row["context"], "")
            subjects = await self._calls.read(
                self._service.subjects_of_id, row["id"], context or None, deleted=True
            )
            if any(map(may_read, subjects)):
                return
        for row in rows[:1]:
            await self._calls.check_id(request, row["id"], qualify(row["context"], "") or None)


def _id(request: Request) -> int:
    return parsed_number(path_value(request, "id"))
