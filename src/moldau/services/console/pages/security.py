"""Security: ACLs as a matrix, users, quotas, and why somebody may or may not do something."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moldau.client.admin.acls import find_acls
from moldau.client.admin.configs import BROKER, describe_configs
from moldau.client.admin.problem import KafkaProblem
from moldau.client.admin.quotas import find_quotas
from moldau.client.admin.scram import find_scram_users
from moldau.client.cluster import Cluster
from moldau.common.access.acl_explanation import Question, explain
from moldau.common.access.acl_text import described, word
from moldau.common.protocol.acls import EVERYTHING, Acl
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.operations import (
    CLUSTER_NAME,
    OPERATIONS_OF,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from moldau.services.console.pages.call import Call
from moldau.services.console.pages.table import Data, Page, Parameter
from moldau.services.http.problems import HttpProblem
from moldau.services.http.rights import Kind
from moldau.services.http.rights import Operation as Right

_SHOWN_MAX = 2_000
_RESOURCES = {each.name.lower(): each for each in OPERATIONS_OF}
_OPERATIONS = tuple(
    each for each in Operation if each not in (Operation.UNKNOWN, Operation.ANY, Operation.TWO_PHASE_COMMIT)
)


async def acls(call: Call) -> Data:
    """See the page's row."""
    call.check(Right.READ, Kind.CLUSTER, "kafka")
    off, found = "", []
    try:
        found = await call.console.cluster.call(lambda cluster: find_acls(cluster, EVERYTHING))
    except KafkaProblem as problem:
        if problem.error_code != ErrorCode.SECURITY_DISABLED:
            raise
        off = problem.words
    text = call.query.get("q", "")[:200].strip()
    words = text.lower().split()
    shown = [
        each
        for each in found
        if all(word in f"{each.principal} {each.resource_name}".lower() for word in words)
    ]
    used = [each for each in _OPERATIONS if any(acl.operation == each for acl in shown)]
    return {
        "off": off,
        "operations": [each.name.lower().replace("_", " ") for each in used],
        "rows": matrix(shown[:_SHOWN_MAX], used),
        "found": len(shown),
        "total": len(found),
        "more": max(0, len(shown) - _SHOWN_MAX),
        "q": text,
    }


def matrix(found: Sequence[Acl], operations: Sequence[Operation]) -> list[dict[str, Any]]:
    """A row for each principal, host and pattern; a cell for each operation: allow, deny or empty. ALL fills
    its row."""
    rows: dict[tuple[str, int, int, str, str], dict[int, int]] = {}
    for acl in found:
        key = acl.principal, acl.resource_type, acl.pattern_type, acl.resource_name, acl.host
        cells = rows.setdefault(key, {})
        if cells.get(acl.operation) != Permission.DENY:
            cells[acl.operation] = acl.permission
    made = []
    for (principal, kind, pattern, name, host), cells in rows.items():
        made.append(
            {
                "principal": principal,
                "resource": word(ResourceType, kind).lower().replace("_", " "),
                "name": name,
                "prefix": pattern == PatternType.PREFIXED,
                "host": host,
                "cells": [_cell(cells, operation) for operation in operations],
            }
        )
    return made


def _cell(cells: dict[int, int], operation: Operation) -> dict[str, Any]:
    own, everything = cells.get(operation), cells.get(Operation.ALL)
    permission = Permission.DENY if Permission.DENY in (own, everything) else own or everything
    return {
        "says": "" if permission is None else word(Permission, permission).lower(),
        "by_all": own is None and everything is not None,
    }


async def users(call: Call) -> Data:
    """See the page's row."""
    call.check(Right.READ, Kind.CLUSTER, "kafka")
    found = await call.console.cluster.call(find_scram_users)
    return {
        "rows": [
            {
                "user": name,
                "mechanisms": [
                    {"name": each, "iterations": count} for each, count in sorted(mechanisms.items())
                ],
            }
            for name, mechanisms in sorted(found.items())
        ]
    }


async def quotas(call: Call) -> Data:
    """See the page's row."""
    call.check(Right.READ, Kind.CLUSTER, "kafka")
    found = await call.console.cluster.call(lambda cluster: find_quotas(cluster, {}, strict=False))
    return {
        "rows": [
            {
                "entity": [{"type": kind, "name": name} for kind, name in entity],
                "values": [{"name": key, "value": value} for key, value in sorted(values.items())],
            }
            for entity, values in sorted(found.items(), key=lambda item: str(item[0]))
        ]
    }


async def why(call: Call) -> Data:
    """See the page's row."""
    call.check(Right.READ, Kind.CLUSTER, "kafka")
    asked = {
        "principal": call.query.get("principal", "").strip()[:300],
        "operation": call.query.get("operation", "read").lower(),
        "resource": call.query.get("resource", "topic").lower(),
        "name": call.query.get("name", "").strip()[:300],
        "host": call.query.get("host", "").strip()[:100],
    }
    choices = {"resources": list(_RESOURCES), "operations": [each.name.lower() for each in _OPERATIONS[1:]]}
    if not asked["principal"]:
        return {**choices, "asked": asked, "answer": None}
    if asked["resource"] not in _RESOURCES or asked["operation"] not in choices["operations"]:
        raise HttpProblem(400, "The operation or the kind of resource is not known.")
    kind, operation = _RESOURCES[asked["resource"]], Operation[asked["operation"].upper()]
    if operation not in OPERATIONS_OF[kind]:
        able = ", ".join(each.name.lower() for each in OPERATIONS_OF[kind])
        raise HttpProblem(400, f"A {asked['resource']} knows no {asked['operation']}: there are {able}.")
    name = CLUSTER_NAME if kind is ResourceType.CLUSTER else asked["name"]
    principal = asked["principal"] if ":" in asked["principal"] else f"User:{asked['principal']}"
    question = Question(principal, asked["host"], operation, kind, name)
    wanted = EVERYTHING._replace(resource_type=kind, resource_name=name, pattern_type=PatternType.MATCH)
    broker = str(min((await call.snapshot()).brokers, default=0))

    def ask(cluster: Cluster) -> tuple[list[Acl], dict[str, str]]:
        keys = ["super.users", "allow.everyone.if.no.acl.found"]
        rows = describe_configs(cluster, BROKER, [broker], synonyms=False, keys=keys).get(broker, [])
        return find_acls(cluster, wanted), {each.name: each.value or "" for each in rows}

    try:
        found, settings = await call.console.cluster.call(ask)
    except KafkaProblem as problem:
        if problem.error_code != ErrorCode.SECURITY_DISABLED:
            raise
        rule = "the brokers check no rights (authorizer.class.name is not set): everybody may do everything"
        return {
            **choices,
            "asked": asked,
            "answer": {"allowed": True, "rule": rule, "deciding": [], "others": 0},
        }
    supers = [each.strip() for each in settings.get("super.users", "").split(";") if each.strip()]
    everyone = settings.get("allow.everyone.if.no.acl.found", "").lower() == "true"
    answer = explain(question, found, supers, allow_everyone=everyone)
    return {
        **choices,
        "asked": {**asked, "name": name, "principal": principal},
        "answer": {
            "allowed": answer.allowed,
            "rule": answer.rule,
            "deciding": [described(*each) for each in answer.deciding],
            "others": len(answer.others),
        },
    }


PAGES = (
    Page(
        "acls",
        "/security/acls",
        "acls.html",
        "security",
        "ACLs as a matrix",
        acls,
        (Parameter("q", "Parts of the principal's or resource's name."),),
    ),
    Page("users", "/security/users", "users.html", "security", "Users who log in by SCRAM", users),
    Page(
        "quotas",
        "/security/quotas",
        "quotas.html",
        "security",
        "Quotas of users, client ids and addresses",
        quotas,
    ),
    Page(
        "why",
        "/security/why",
        "why.html",
        "security",
        "Whether somebody may do something, and which rule decides",
        why,
        (
            Parameter("principal", "Who: alice is User:alice."),
            Parameter("operation", "read, write, describe, ..."),
            Parameter("resource", "topic, group, cluster, ..."),
            Parameter("name", "The resource's name."),
            Parameter("host", "The address that they come from."),
        ),
    ),
)
