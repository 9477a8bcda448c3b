"""What the registry's routes have in common.

Calls that may take long run in worker threads: reads in one pool, comparisons in another, writes in a third,
so that neither a broker which does not answer writes nor large schemas hold up reads. Comparisons, also those
before a large schema is registered, take turns by host (fair_queue.py). What waits is dropped when its client
leaves; what runs ends then, when the service stops, and after its steps (schemas/effort.py).

A write that comes to an instance which is not the primary goes to the primary as it came, and is seen by the
next read here. While a primary that is gone is replaced, writes wait: what was not written is sent again.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from threading import Event
from typing import Any, ParamSpec, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from moldau.common.core.collector import full_collections
from moldau.schemas.effort import Abandoned, Work, working
from moldau.services.http.answers import json_answer
from moldau.services.http.application import path_value, principal_of
from moldau.services.http.bodies import parse_json, read_bytes, text_bytes
from moldau.services.http.context import CLIENT_HOST, CLIENT_IS_GONE, context_of
from moldau.services.http.media_types import JSON, essence
from moldau.services.http.problems import HttpProblem, plain_problem
from moldau.services.http.rights import Kind, Operation, Rights
from moldau.services.registry.forwarding import Interrupted, NotReached
from moldau.services.registry.names import ANY_CONTEXT, normal_name, parse_context, parse_name, qualify
from moldau.services.registry.problems import Code, NotPrimary, RegistryProblem
from moldau.services.registry.routes.fair_queue import FairQueue
from moldau.services.registry.service import RegistryService

log = logging.getLogger("moldau.registry")

P = ParamSpec("P")
T = TypeVar("T")

V1_JSON = "application/vnd.schemaregistry.v1+json"
OFFERED = (V1_JSON, "application/vnd.schemaregistry+json", JSON)
_READ = frozenset((*OFFERED, "application/octet-stream", ""))
_PARSED_INLINE_BYTES_MAX = 32 * 1024
_COMPARED_FIRST_BYTES_MIN = 4 * 1024
"""A registration of a schema this large is parsed and compared in its host's turn, before it is written."""
_COMPARED_AT_ONCE = 2
_VALUES_MAX = 50_000
"""Members and elements of a body, in which a schema is one text. With 10,000 references it has 40,000."""
_PAGE = 1_000
_LIST_MAX = 20_000
_PREFIXES_MAX = 100
_INT_MAX = 2**31 - 1
_NOT_FOUND = 404
_ELECTION_PAUSE_SECONDS = 0.1

Forward = Callable[[str, Request, bytes], Awaitable[Response]]
"""Sends a request to the primary at a URL, and gives its response. RegistryProblem 50003, 50004."""


@dataclass(slots=True)
class Calls:
    """The service as routes call it."""

    service: RegistryService
    forward: Forward
    rights: Rights = field(default_factory=Rights.all)
    is_read_only: bool = False
    election_seconds: float = 20.0
    """So long a write is sent again while a primary that is gone is replaced; none of this was written."""
    schema_bytes_max: int = 1024 * 1024
    readers: Executor = field(default_factory=lambda: ThreadPoolExecutor(4, "registry-read"))
    comparers: Executor = field(
        default_factory=lambda: ThreadPoolExecutor(_COMPARED_AT_ONCE, "registry-compare")
    )
    writers: Executor = field(default_factory=lambda: ThreadPoolExecutor(16, "registry-write"))
    turns: FairQueue = field(default_factory=lambda: FairQueue(_COMPARED_AT_ONCE))
    stopped: Event = field(default_factory=Event)

    async def read(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call what may take long. ConnectionResetError: the client left while it waited for its turn."""
        return await self._in_thread(self.readers, lambda: call(*args, **kwargs))

    async def compare(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """As `find`, for work on a schema of the request, which may take seconds."""
        try:
            return await self._in_turn(lambda: call(*args, **kwargs))
        except RegistryProblem as problem:
            if problem.status != _NOT_FOUND or not await self.read(self.service.instance.catch_up_after_miss):
                raise
        return await self._in_turn(lambda: call(*args, **kwargs))

    async def compare_first(self, body: bytes, call: Callable[[], object]) -> None:
        """Before a write: the part of its work that is parsing and comparing, if it is large."""
        if len(body) >= _COMPARED_FIRST_BYTES_MIN and not self.is_read_only:
            await self._in_turn(call)

    async def _in_turn(self, call: Callable[[], T]) -> T:
        async with self.turns.turn(CLIENT_HOST.get(), CLIENT_IS_GONE.get()):
            return await self._in_thread(self.comparers, call)

    async def _in_thread(self, pool: Executor, call: Callable[[], T]) -> T:
        gone, stopped = CLIENT_IS_GONE.get(), self.stopped

        def is_abandoned() -> bool:
            return stopped.is_set() or gone()

        def work() -> T:
            if is_abandoned():
                raise ConnectionResetError("the client has gone")
            try:
                with working(Work(is_abandoned)):
                    return call()
            except Abandoned:
                raise ConnectionResetError("the client has gone") from None

        return await asyncio.get_running_loop().run_in_executor(pool, work)

    def close(self) -> None:
        """End the threads: what waits for one is dropped, parsing and comparing ends at its next step."""
        self.stopped.set()
        self.turns.close()
        for each in (self.readers, self.comparers, self.writers):
            each.shutdown(wait=False, cancel_futures=True)

    async def find(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """As `read`, for one thing that another instance may just have written."""
        try:
            return await self.read(call, *args, **kwargs)
        except RegistryProblem as problem:
            if problem.status != _NOT_FOUND or not await self.read(self.service.instance.catch_up_after_miss):
                raise
        return await self.read(call, *args, **kwargs)

    async def write(
        self, request: Request, body: bytes, call: Callable[[], Any], *, repeatable: bool = False
    ) -> Response:
        """Call what writes; its result, or the primary's response. `repeatable`: it may be sent again when
        the primary is lost before it answers, because twice does what once does.
        """
        if self.is_read_only:
            raise RegistryProblem(Code.NOT_PERMITTED, "This registry is read-only: it answers reads only")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.election_seconds
        while True:
            try:
                return json_answer(request, await self._in_thread(self.writers, call))
            except NotPrimary as elsewhere:
                try:
                    response = await self.forward(elsewhere.url, request, body)
                except (NotReached, Interrupted) as lost:
                    if loop.time() >= deadline or (isinstance(lost, Interrupted) and not repeatable):
                        raise
                else:
                    if not _wrote_nothing(response) or loop.time() >= deadline:
                        break
            await asyncio.sleep(_ELECTION_PAUSE_SECONDS)
        if response.status_code < 300:
            try:
                await loop.run_in_executor(self.readers, self.service.instance.catch_up)
            except RegistryProblem as problem:
                # It is written: an error would have clients write it again.
                log.warning("a write that was forwarded is not read here yet: %s", problem)
        return response

    async def read_schema(self, request: Request) -> tuple[bytes, dict[str, Any]]:
        """The body, and the request that it is. As `read_object`; RegistryProblem 42209.

        A text that no record of the topic could hold is not parsed, because a parser's single steps over
        megabytes would stop all other requests meanwhile.
        """
        body, found = await read_object(request)
        text = found.get("schema")
        if isinstance(text, str) and len(text) > self.schema_bytes_max:
            raise RegistryProblem(
                Code.SCHEMA_TOO_LARGE,
                f"The schema has {len(text)} characters; the most is {self.schema_bytes_max} "
                "(moldau.registry.schema.bytes.max)",
            )
        return body, found

    @staticmethod
    def at_work(body: bytes) -> AbstractContextManager[None]:
        """What goes around the work on a schema: a large one is parsed into very many objects."""
        return full_collections.paused() if len(body) > _PARSED_INLINE_BYTES_MAX else nullcontext()

    # -- rights ---------------------------------------------------------------------------------------

    def check(self, request: Request, operation: Operation, subject: str | None) -> None:
        """HttpProblem 40301; `subject` None (or a context as a whole): what holds for all."""
        if self.rights.unlimited:
            return
        if subject is None:
            self.rights.check(principal_of(request), operation, Kind.CLUSTER, "registry")
        else:
            self.rights.check(principal_of(request), operation, Kind.SUBJECT, subject)

    def check_references(self, request: Request, subject: str, body: Mapping[str, Any]) -> None:
        """A schema may refer only to what its author may read. HttpProblem 40301."""
        references = body.get("references")
        if self.rights.unlimited or not isinstance(references, list):
            return
        for reference in references:
            name = reference.get("subject") if isinstance(reference, dict) else None
            if isinstance(name, str):
                context = parse_name(subject).context
                self.check(request, Operation.READ, in_context(context, name))

    async def check_id(self, request: Request, schema_id: int, subject: str | None) -> None:
        """A schema by id is for who may read one of its subjects. HttpProblem 40301."""
        if self.rights.unlimited:
            return
        may_read = self.may_read(request)
        subjects = await self.find(self.service.subjects_of_id, schema_id, subject, deleted=True)
        if not any(map(may_read, subjects)):
            self.rights.check(principal_of(request), Operation.READ, Kind.SUBJECT, f"of id {schema_id}")

    def may_read(self, request: Request) -> Callable[[str], bool]:
        """Whether the principal may read a subject."""
        return self.rights.filter(principal_of(request), Operation.READ, Kind.SUBJECT)

    def visible(self, request: Request) -> Callable[[str], bool] | None:
        """Which subjects a list may have; None: all."""
        return None if self.rights.unlimited else self.may_read(request)

    def check_found(self, request: Request, asked: str, found: Mapping[str, Any]) -> None:
        """A name without a context is looked for in all: what it finds elsewhere is for who may read that.
        RegistryProblem 40401, as if it were not there.
        """
        subject = found.get("subject")
        if self.rights.unlimited or not isinstance(subject, str):
            return
        elsewhere = parse_name(subject).context != parse_name(asked).context
        if elsewhere and not self.may_read(request)(subject):
            raise RegistryProblem(Code.SUBJECT_NOT_FOUND, f"Subject '{asked}' not found.")

    def visible_page(
        self,
        fetch: Callable[[int, int], list[T]],
        is_visible: Callable[[T], bool],
        offset: int,
        limit: int,
    ) -> list[T]:
        """A page of a list of which only some may be seen; `fetch` gives one of all, by offset and limit."""
        if self.rights.unlimited:
            return fetch(offset, limit)
        found: list[T] = []
        position, wanted = 0, offset + (limit if 0 < limit <= _LIST_MAX else _LIST_MAX)
        while len(found) < wanted and (page := fetch(position, _PAGE)):
            position += len(page)
            found += filter(is_visible, page)
        return found[offset:wanted]


def _wrote_nothing(response: Response) -> bool:
    """Whether the instance that was asked is not the primary, or not any more."""
    if response.status_code != 500:
        return False
    try:
        return bool(json.loads(bytes(response.body))["error_code"] == Code.NO_PRIMARY)
    except (ValueError, TypeError, KeyError):
        return False


# -- requests ---------------------------------------------------------------------------------------------


def both(path: str, endpoint: Callable[[Request], Awaitable[Response]], method: str) -> Iterable[Route]:
    """The route, and the same below /contexts/{context}."""
    for prefix in ("", "/contexts/{context}"):
        yield Route(prefix + path, endpoint, methods=[method])


def context_of_path(request: Request) -> str | None:
    """The context before the path, if there is one."""
    if "context" not in request.path_params:
        return None
    return parse_context(path_value(request, "context"))


def in_context(context: str | None, name: str) -> str:
    """The name of a subject, put into a context unless it names one."""
    if name.startswith(f":{ANY_CONTEXT}:"):
        return name
    if name.startswith(":."):
        return normal_name(name)  # else `:.:orders` would have other rights than `orders`, which it is
    return name if context is None else qualify(context, name)


def subject_of(request: Request) -> str:
    """The subject of the path."""
    return in_context(context_of_path(request), path_value(request, "subject"))


def subject_parameter(request: Request) -> str | None:
    """The query parameter `subject`; below a context, the context itself where it is absent."""
    context = context_of_path(request)
    given = request.query_params.get("subject")
    return given if context is None else in_context(context, given or "")


def prefix_parameters(request: Request) -> list[str]:
    """The query parameters `subjectPrefix`: every context if there is none, or that of the path."""
    context = context_of_path(request)
    given = list(dict.fromkeys(request.query_params.getlist("subjectPrefix")))
    if len(given) > _PREFIXES_MAX:
        raise HttpProblem(422, f"The parameter subjectPrefix is given more than {_PREFIXES_MAX} times")
    if context is None:
        return given or [f":{ANY_CONTEXT}:"]
    return [in_context(context, each) for each in given or [""]]


def flag(request: Request, name: str) -> bool:
    """A query parameter that is true or (anything else) false."""
    return request.query_params.get(name, "").strip().lower() == "true"


def number(request: Request, name: str, default: int) -> int:
    """A query parameter that is a whole number. 404 as JAX-RS answers for one that is none."""
    given = request.query_params.get(name)
    return default if given is None or given == "" else parsed_number(given)


def parsed_number(text: str) -> int:
    """A whole number of 32 bits. HttpProblem 404 for anything else, as JAX-RS answers."""
    digits = text[1:] if text[:1] in "+-" else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10) or int(digits) > _INT_MAX:
        raise plain_problem(404)
    return int(text)


def paging(request: Request) -> tuple[int, int]:
    """The query parameters `offset` and `limit` (-1: the service's own)."""
    return max(number(request, "offset", 0), 0), number(request, "limit", -1)


async def read_object(request: Request) -> tuple[bytes, dict[str, Any]]:
    """The body, and the JSON object that it is. HttpProblem 400, 413, 415, 422."""
    if essence(request.headers.get("content-type", "")) not in _READ:
        raise plain_problem(415)
    body = await read_bytes(request)
    if not body.strip():
        raise HttpProblem(422, "The request's body must not be empty: it is a JSON object")
    depth_max = context_of(request).json_depth_max
    if len(body) > _PARSED_INLINE_BYTES_MAX:
        context_of(request).hold(text_bytes(body))  # a schema is one text; other values are few
        with full_collections.paused():
            value = await asyncio.to_thread(parse_json, body, depth_max, values_max=_VALUES_MAX)
    else:
        value = parse_json(body, depth_max)
    if not isinstance(value, dict):
        raise HttpProblem(400, "The request's body must be a JSON object")
    return body, value
