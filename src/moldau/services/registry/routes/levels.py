"""/config and /mode: the compatibility level and what goes with it, and whether schemas may be registered.

For all subjects, for a context, for a subject.
"""

from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from moldau.services.http.answers import json_answer
from moldau.services.http.destructive import check_delete, delete_flag
from moldau.services.http.rights import Operation
from moldau.services.registry.names import GLOBAL_CONTEXT, parse_name, qualify
from moldau.services.registry.routes.calls import (
    Calls,
    both,
    context_of_path,
    flag,
    in_context,
    read_object,
    subject_of,
)


class LevelRoutes:
    """The endpoints."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._service = calls.service

    def routes(self) -> Iterator[Route]:
        """Path by path."""
        for end in ("", "/{subject}"):
            yield from both("/config" + end, self.config, "GET")
            yield from both("/config" + end, self.set_config, "PUT")
            yield from both("/config" + end, self.delete_config, "DELETE")
            yield from both("/mode" + end, self.mode, "GET")
            yield from both("/mode" + end, self.set_mode, "PUT")
            yield from both("/mode" + end, self.delete_mode, "DELETE")

    async def config(self, request: Request) -> Response:
        """GET /config[/{s}] [defaultToGlobal]."""
        subject = self._subject(request, Operation.READ)
        to_global = flag(request, "defaultToGlobal")
        return json_answer(request, self._service.config(subject, default_to_global=to_global))

    async def set_config(self, request: Request) -> Response:
        """PUT /config[/{s}]."""
        subject = self._subject(request, Operation.CONFIGURE)
        body, config = await read_object(request)
        alias = config.get("alias")
        if isinstance(alias, str) and alias:
            # Else an alias would lend the rights for its own name to the subject that it stands for.
            context = parse_name(subject or "").context
            self._calls.check(request, Operation.CONFIGURE, in_context(context, alias))
        return await self._calls.write(
            request, body, lambda: self._service.set_config(subject, config), repeatable=True
        )

    async def delete_config(self, request: Request) -> Response:
        """DELETE /config[/{s}]."""
        check_delete(request)
        subject = self._subject(request, Operation.CONFIGURE)
        return await self._calls.write(request, b"", lambda: self._service.delete_config(subject))

    async def mode(self, request: Request) -> Response:
        """GET /mode[/{s}] [defaultToGlobal]."""
        subject = self._subject(request, Operation.READ)
        to_global = flag(request, "defaultToGlobal")
        return json_answer(request, self._service.mode(subject, default_to_global=to_global))

    async def set_mode(self, request: Request) -> Response:
        """PUT /mode[/{s}] [force]."""
        subject = self._subject(request, Operation.CONFIGURE)
        body, mode = await read_object(request)
        force = flag(request, "force")
        return await self._calls.write(
            request, body, lambda: self._service.set_mode(subject, mode, force=force), repeatable=True
        )

    async def delete_mode(self, request: Request) -> Response:
        """DELETE /mode[/{s}] [recursive]."""
        check_delete(request, ("recursive",))
        subject = self._subject(request, Operation.CONFIGURE)
        recursive = delete_flag(request, "recursive")
        return await self._calls.write(
            request, b"", lambda: self._service.delete_mode(subject, recursive=recursive)
        )

    def _subject(self, request: Request, operation: Operation) -> str | None:
        """The subject, the context as a whole, or None: what holds for all. Everybody may read that."""
        if "subject" in request.path_params:
            subject: str | None = subject_of(request) or None  # `:.:`, which is all
        else:
            context = context_of_path(request)
            subject = None if context is None else in_context(context, "") or None
        for_all = subject is None or subject == qualify(GLOBAL_CONTEXT, "")
        if not for_all or operation is not Operation.READ:
            self._calls.check(request, operation, None if for_all else subject)
        return subject
