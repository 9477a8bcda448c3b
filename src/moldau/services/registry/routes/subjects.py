"""/subjects: names, versions, registration, look-up, deletion."""

from collections.abc import Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from moldau.services.http.answers import json_answer, json_list_answer, text_answer
from moldau.services.http.application import path_value
from moldau.services.http.destructive import check_delete, delete_flag
from moldau.services.http.rights import Operation
from moldau.services.registry.operations.registering import is_repeatable
from moldau.services.registry.routes.calls import (
    Calls,
    both,
    flag,
    paging,
    prefix_parameters,
    subject_of,
)


class SubjectRoutes:
    """The endpoints."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._service = calls.service

    def routes(self) -> Iterator[Route]:
        """Path by path."""
        yield from both("/subjects", self.subjects, "GET")
        yield from both("/subjects/{subject}", self.look_up, "POST")
        yield from both("/subjects/{subject}", self.delete_subject, "DELETE")
        yield from both("/subjects/{subject}/versions", self.versions, "GET")
        yield from both("/subjects/{subject}/versions", self.register, "POST")
        yield from both("/subjects/{subject}/metadata", self.with_metadata, "GET")
        yield from both("/subjects/{subject}/versions/{version}", self.version, "GET")
        yield from both("/subjects/{subject}/versions/{version}", self.delete_version, "DELETE")
        yield from both("/subjects/{subject}/versions/{version}/tags", self.change_tags, "POST")
        yield from both("/subjects/{subject}/versions/{version}/schema", self.version_text, "GET")
        yield from both("/subjects/{subject}/versions/{version}/referencedby", self.referenced_by, "GET")

    async def subjects(self, request: Request) -> Response:
        """GET /subjects [subjectPrefix, deleted, deletedOnly, offset, limit]."""
        prefixes = prefix_parameters(request)
        deleted, deleted_only = flag(request, "deleted"), flag(request, "deletedOnly")
        offset, limit = paging(request)

        found = await self._calls.read(
            self._service.subjects,
            *prefixes,
            deleted=deleted,
            deleted_only=deleted_only,
            offset=offset,
            limit=limit,
            visible=self._calls.visible(request),
        )
        return json_list_answer(request, found)

    async def versions(self, request: Request) -> Response:
        """GET /subjects/{s}/versions [deleted, deletedOnly, deletedAsNegative, offset, limit]."""
        subject = subject_of(request)
        self._calls.check(request, Operation.READ, subject)
        offset, limit = paging(request)
        found = await self._calls.find(
            self._service.versions,
            subject,
            deleted=flag(request, "deleted"),
            deleted_only=flag(request, "deletedOnly"),
            deleted_as_negative=flag(request, "deletedAsNegative"),
            offset=offset,
            limit=limit,
        )
        return json_answer(request, found)

    async def version(self, request: Request) -> Response:
        """GET /subjects/{s}/versions/{v} [format, referenceFormat, deleted]."""
        return json_answer(request, await self._version(request))

    async def version_text(self, request: Request) -> Response:
        """GET /subjects/{s}/versions/{v}/schema: the schema's text alone."""
        return text_answer(request, (await self._version(request))["schema"])

    async def _version(self, request: Request) -> dict[str, Any]:
        subject = subject_of(request)
        self._calls.check(request, Operation.READ, subject)
        query = request.query_params
        found = await self._calls.find(
            self._service.version,
            subject,
            path_value(request, "version"),
            format=query.get("format", ""),
            reference_format=query.get("referenceFormat", ""),
            deleted=flag(request, "deleted"),
        )
        self._calls.check_found(request, subject, found)
        return found

    async def referenced_by(self, request: Request) -> Response:
        """GET /subjects/{s}/versions/{v}/referencedby [offset, limit]: ids of schemas."""
        subject = subject_of(request)
        self._calls.check(request, Operation.READ, subject)
        offset, limit = paging(request)
        version = path_value(request, "version")
        if not self._calls.rights.unlimited:
            there = await self._calls.find(self._service.version, subject, version, deleted=True)
            self._calls.check_found(request, subject, there)
        found = await self._calls.find(
            self._service.referenced_by, subject, version, offset=offset, limit=limit
        )
        return json_answer(request, found)

    async def with_metadata(self, request: Request) -> Response:
        """GET /subjects/{s}/metadata [key, value, format, deleted]; keys and values go by their order."""
        subject = subject_of(request)
        self._calls.check(request, Operation.READ, subject)
        query = request.query_params
        properties = dict(zip(query.getlist("key"), query.getlist("value"), strict=False))
        found = await self._calls.find(
            self._service.with_metadata,
            subject,
            properties,
            format=query.get("format", ""),
            deleted=flag(request, "deleted"),
        )
        return json_answer(request, found)

    async def look_up(self, request: Request) -> Response:
        """POST /subjects/{s} [normalize, format, deleted]: the version that has this schema."""
        subject = subject_of(request)
        self._calls.check(request, Operation.READ, subject)
        body, schema = await self._calls.read_schema(request)
        self._calls.check_references(request, subject, schema)
        with self._calls.at_work(body):
            found = await self._calls.compare(
                self._service.look_up,
                subject,
                schema,
                normalize=flag(request, "normalize"),
                format=request.query_params.get("format", ""),
                deleted=flag(request, "deleted"),
            )
        self._calls.check_found(request, subject, found)
        return json_answer(request, found)

    async def register(self, request: Request) -> Response:
        """POST /subjects/{s}/versions [normalize, format]."""
        subject = subject_of(request)
        self._calls.check(request, Operation.WRITE, subject)
        body, schema = await self._calls.read_schema(request)
        self._calls.check_references(request, subject, schema)
        normalize, wanted = flag(request, "normalize"), request.query_params.get("format", "")
        with self._calls.at_work(body):
            await self._calls.compare_first(
                body, lambda: self._service.check_registration(subject, schema, normalize=normalize)
            )
            return await self._calls.write(
                request,
                body,
                lambda: self._service.register(subject, schema, normalize=normalize, format=wanted),
                repeatable=is_repeatable(schema),
            )

    async def change_tags(self, request: Request) -> Response:
        """POST /subjects/{s}/versions/{v}/tags: a new version."""
        subject, version = subject_of(request), path_value(request, "version")
        self._calls.check(request, Operation.WRITE, subject)
        self._calls.check(request, Operation.READ, subject)
        body, changes = await self._calls.read_schema(request)
        with self._calls.at_work(body):
            return await self._calls.write(
                request, body, lambda: self._service.change_tags(subject, version, changes)
            )

    async def delete_subject(self, request: Request) -> Response:
        """DELETE /subjects/{s} [permanent]: the versions deleted."""
        check_delete(request, ("permanent",))
        subject, permanent = subject_of(request), delete_flag(request, "permanent")
        self._calls.check(request, Operation.DELETE, subject)
        return await self._calls.write(
            request, b"", lambda: self._service.delete_subject(subject, permanent=permanent)
        )

    async def delete_version(self, request: Request) -> Response:
        """DELETE /subjects/{s}/versions/{v} [permanent]: the version deleted."""
        check_delete(request, ("permanent",))
        subject, permanent = subject_of(request), delete_flag(request, "permanent")
        version = path_value(request, "version")
        self._calls.check(request, Operation.DELETE, subject)
        return await self._calls.write(
            request, b"", lambda: self._service.delete_version(subject, version, permanent=permanent)
        )
