"""Changes as pages and as JSON: a form, a preview of what will happen, the deed.

    GET  path                      the form (or, for a change that asks for nothing, the preview)
    POST path  step=preview        the preview
    POST path  step=do, digest     the deed, if the preview made now is still the one that was shown
    POST /api{path}                JSON: the same; "dry_run": true only makes the plan

After the deed the browser is sent to another page (303), which names the deed by an id: a page that is loaded
again does nothing again. A preview whose button is pressed twice is done once. A dangerous change wants the
target's name to be typed.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from moldau.client.admin.problem import KafkaProblem
from moldau.services.console.access import NOBODY
from moldau.services.console.changes.change import Change, Done, Plan, Refused, Target
from moldau.services.console.cluster import WHO
from moldau.services.console.pages.call import Call, Console
from moldau.services.console.pages.routes import (
    html_response,
    json_response,
    problem_page,
    require_login,
    to_login,
    translate,
)
from moldau.services.http.answers import problem_answer
from moldau.services.http.bodies import read_bytes, read_json
from moldau.services.http.media_types import essence
from moldau.services.http.problems import HttpProblem
from moldau.services.http.rights import Kind, Operation

log = logging.getLogger("moldau.console")

_DONE_KEPT = 200
_BODY_BYTES_MAX = 2 * 1024 * 1024
_SECTIONS = {
    "topic": "topics",
    "group": "groups",
    "cluster": "brokers",
    "subject": "schemas",
    "connector": "connectors",
}


class Forms:
    """Makes the routes of all changes."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def routes(self) -> list[BaseRoute]:
        """Two for each change."""
        found: list[BaseRoute] = []
        for change in self._console.changes.values():
            page, api = _Form(self._console, change), _Api(self._console, change)
            found.append(Route(change.path, page.answer, methods=["GET", "POST"]))
            found.append(Route(f"/api{change.path}", api.answer, methods=["POST"]))
        return found


class _Deed:
    """What form and JSON share."""

    def __init__(self, console: Console, change: Change) -> None:
        self.console = console
        self.change = change

    def target(self, call: Call) -> Target:
        names = [part[1:-1] for part in self.change.path.split("/") if part.startswith("{")]
        return {name: call.path(name) for name in names}

    def named(self, target: Target, values: Mapping[str, str]) -> str:
        if not self.change.named_by:
            return "kafka"  # the cluster
        return target.get(self.change.named_by) or values.get(self.change.named_by, "").strip()

    def check(self, call: Call, target: Target, values: Mapping[str, str]) -> None:
        """HttpProblem 403, with an audit line."""
        name = self.named(target, values)
        try:
            if self.change.prefill is not None and "topic" in target and self.change.named_by != "topic":
                call.check(Operation.READ, Kind.TOPIC, target["topic"])  # it is copied from
            call.check(self.change.operation, self.change.kind, name)
        except HttpProblem as problem:
            if call.request.method == "POST":
                self._audit(call, name, "refused", problem.message)
            raise

    async def do(self, call: Call, target: Target, values: Mapping[str, str], plan: Plan) -> Done:
        """Carry it out, with an audit line before and after. KafkaProblem, Refused, HttpProblem 503."""
        name = self.named(target, values)
        detail = "; ".join(plan.lines)
        try:
            self.console.audit.begin(call.principal.name, _host(call), self.change.name, name, detail)
        except OSError:
            raise HttpProblem(503, "The audit file cannot be written: nothing is changed.") from None
        token = WHO.set(call.principal.name)
        try:
            done = await self.change.carry_out(target, plan)
        except Exception as failure:
            self._audit(call, name, "failed", f"{detail} – {failure}")
            raise
        finally:
            WHO.reset(token)
        self._audit(call, name, "done", detail)
        return done

    def _audit(self, call: Call, name: str, outcome: str, detail: str) -> None:
        try:
            self.console.audit.add(call.principal.name, _host(call), self.change.name, name, outcome, detail)
        except OSError as problem:
            log.error("the audit file cannot be written: %s", problem)


def _host(call: Call) -> str:
    return str((call.request.scope.get("client") or ("",))[0])


class _Form(_Deed):
    async def answer(self, request: Request) -> Response:
        call = Call(self.console, request)
        if call.principal is NOBODY:
            return to_login(request)
        section = _SECTIONS.get(self.change.kind, "")
        try:
            target = self.target(call)
            if request.method == "GET":
                return await self._asked(call, target)
            return await self._posted(call, target, await form_values(request))
        except Exception as failure:
            return problem_page(call, failure, section)

    async def _asked(self, call: Call, target: Target) -> Response:
        values = dict(await self.change.prefill(target)) if self.change.prefill is not None else {}
        values |= {each.name: call.query[each.name] for each in self.change.fields if each.name in call.query}
        self.check(call, target, values)
        if self.change.fields and call.query.get("preview") != "1":
            return self._form(call, target, values)
        return await self._preview(call, target, values)

    async def _posted(self, call: Call, target: Target, values: Mapping[str, str]) -> Response:
        self.check(call, target, values)
        if values.get("step") == "edit":
            return self._form(call, target, values)
        if values.get("step") != "do":
            return await self._preview(call, target, values)
        sent_id = values.get("once", "")[:64] or secrets.token_urlsafe(12)
        once = f"{sent_id} {self.change.name} {call.principal.name} {call.request.scope['path']}"
        if once not in self.console.sent:
            try:
                plan = await self.change.plan(target, values)
            except (Refused, KafkaProblem) as problem:
                return self._form(call, target, values, problem)
            if plan.digest != values.get("digest"):
                return self._shown(call, target, values, plan, "The cluster has changed since: look again.")
            name = self.named(target, values)
            if plan.dangerous and values.get("confirm", "").strip() != name:
                return self._shown(call, target, values, plan, f"Type {name} to confirm.")
            if once not in self.console.sent:
                self.console.sent[once] = asyncio.ensure_future(self.do(call, target, values, plan))
                _shortened(self.console.sent)
        return await self._outcome(call, target, values, once)

    async def _outcome(self, call: Call, target: Target, values: Mapping[str, str], once: str) -> Response:
        """What comes of a preview that was sent; a button that was pressed twice waits for the first."""
        try:
            done = await asyncio.shield(self.console.sent[once])
        except (Refused, KafkaProblem, HttpProblem) as problem:
            self.console.sent.pop(once, None)
            if isinstance(problem, HttpProblem):
                raise
            return self._form(call, target, values, problem)
        return RedirectResponse(_with_done(self.console, done), 303)

    async def _preview(self, call: Call, target: Target, values: Mapping[str, str]) -> Response:
        try:
            plan = await self.change.plan(target, values)
        except (Refused, KafkaProblem) as problem:
            return self._form(call, target, values, problem)
        return self._shown(call, target, values, plan, "")

    def _form(
        self, call: Call, target: Target, values: Mapping[str, str], problem: Exception | None = None
    ) -> Response:
        wrong = getattr(problem, "field", "")
        words = problem.words if isinstance(problem, KafkaProblem) else str(problem or "")
        data = {
            **self._common(target, values),
            "problem": words,
            "wrong": wrong,
            "fields": self.change.fields,
            "values": {each.name: values.get(each.name, each.default) for each in self.change.fields},
        }
        return html_response(
            call, "form.html", _SECTIONS.get(self.change.kind, ""), data, 400 if problem else 200
        )

    def _shown(
        self, call: Call, target: Target, values: Mapping[str, str], plan: Plan, problem: str
    ) -> Response:
        data = {
            **self._common(target, values),
            "plan": plan,
            "problem": problem,
            "once": secrets.token_urlsafe(12),
            "kept": {each.name: values.get(each.name, "") for each in self.change.fields},
        }
        return html_response(
            call, "preview.html", _SECTIONS.get(self.change.kind, ""), data, 409 if problem else 200
        )

    def _common(self, target: Target, values: Mapping[str, str]) -> dict[str, Any]:
        path, back = self.change.path, self.change.back
        for name, value in target.items():
            path = path.replace(f"{{{name}}}", quote(value, safe=""))
            back = back.replace(f"{{{name}}}", quote(value, safe=""))
        return {
            "change": self.change,
            "path": path,
            "back": back,
            "target": self.named(target, values),
        }


class _Api(_Deed):
    async def answer(self, request: Request) -> Response:
        call = Call(self.console, request)
        require_login(call)
        body = await read_json(request, bytes_max=_BODY_BYTES_MAX)
        given = _given(request, body, self.change)
        target = self.target(call)
        self.check(call, target, given)
        try:
            values = {**await self.change.prefill(target), **given} if self.change.prefill else given
            plan = await self.change.plan(target, values)
            if body.get("dry_run"):
                return json_response(_plan_json(plan))
            if body.get("digest", plan.digest) != plan.digest:
                raise HttpProblem(409, "The plan is no longer the one of that digest: ask for it again.")
            done = await self.do(call, target, values, plan)
        except Refused as problem:
            return problem_answer(request, HttpProblem(422, str(problem)))
        except KafkaProblem as problem:
            refused = translate(problem)
            return problem_answer(request, HttpProblem(refused.status if refused else 502, problem.words))
        return json_response({**_plan_json(plan), "done": done.text, "link": done.link, "undo": done.undo})


def _given(request: Request, body: Any, change: Change) -> dict[str, str]:
    """The fields of a JSON body. HttpProblem 400 for whatever could make the change another one, or a larger
    one, than was meant: names that are not known (`dryRun`, `topics`), nulls, a query, a scope left out."""
    if request.url.query:
        raise HttpProblem(400, "A change takes what it is told from its body, nothing from the query.")
    if not isinstance(body, dict):
        raise HttpProblem(400, "the body is no JSON object")
    names = [each.name for each in change.fields]
    for name, value in body.items():
        if name not in (*names, "dry_run", "digest"):
            known = ", ".join((*names, "dry_run", "digest"))
            raise HttpProblem(400, f"{name[:60]!r} is not known, and nothing is changed: there are {known}.")
        if value is None:
            raise HttpProblem(
                400, f"{name} is null, and nothing is changed: leave it out, or say what it is."
            )
    if not isinstance(body.get("dry_run", False), bool) or not isinstance(body.get("digest", ""), str):
        raise HttpProblem(400, "dry_run is true or false, and digest a text: nothing is changed.")
    for each in change.fields:
        if (each.required or each.must_be_named) and each.name not in body:
            words = f" {each.help}" if each.must_be_named else ""
            raise HttpProblem(400, f"{each.name} is left out, and nothing is changed.{words}")
    return {name: _text(body[name]) for name in names if name in body}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else ""
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, dict):  # settings
        return "\n".join(f"{name}={_text(each)}" for name, each in value.items())
    raise HttpProblem(400, "values are texts, numbers or, of settings, an object of texts")


def _plan_json(plan: Plan) -> dict[str, Any]:
    return {
        "title": plan.title,
        "lines": list(plan.lines),
        "warnings": list(plan.warnings),
        "columns": list(plan.columns),
        "table": [list(row) for row in plan.table],
        "dangerous": plan.dangerous,
        "digest": plan.digest,
    }


async def form_values(request: Request) -> dict[str, str]:
    """The fields of a form. HttpProblem 400, 413, 415."""
    if essence(request.headers.get("content-type", "")) != "application/x-www-form-urlencoded":
        raise HttpProblem(415, "a form is sent as application/x-www-form-urlencoded")
    body = await read_bytes(request, bytes_max=_BODY_BYTES_MAX)
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=200))
    except ValueError:
        raise HttpProblem(400, "the form cannot be read") from None


def _shortened(kept: dict[str, Any]) -> None:
    while len(kept) > _DONE_KEPT:
        kept.pop(next(iter(kept)))


def _with_done(console: Console, done: Done) -> str:
    id = secrets.token_urlsafe(8)
    console.done[id] = done
    _shortened(console.done)
    link = done.link or "/"
    return f"{link}{'&' if '?' in link else '?'}done={id}"
