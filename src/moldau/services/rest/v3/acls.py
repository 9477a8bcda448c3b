"""ACLs: searched, created (one, or several at a time), deleted by a filter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import IntEnum
from functools import partial
from typing import Any

from starlette.responses import Response

from moldau.client.admin.acls import create_acls, delete_acls, find_acls
from moldau.common.protocol.acls import Acl, AclFilter
from moldau.common.protocol.operations import Operation, PatternType, Permission, ResourceType
from moldau.services.http.problems import HttpProblem
from moldau.services.rest.v3 import fields
from moldau.services.rest.v3.call import Call
from moldau.services.rest.v3.errors import BAD_REQUEST
from moldau.services.rest.v3.operations import Query, Right, operation
from moldau.services.rest.v3.resources import resource

_TAG = "ACL (v3)"
_PATH = "/clusters/{cluster_id}/acls"
_ENUMS: Mapping[str, tuple[type[IntEnum], str]] = {
    "resource_type": (ResourceType, "AclResourceType"),
    "pattern_type": (PatternType, "AclPatternType"),
    "operation": (Operation, "AclOperation"),
    "permission": (Permission, "AclPermission"),
}
_FIELDS = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission")
_WORDS = {name: f"The ACL's {name.replace('_', ' ')}." for name in _FIELDS}
_FILTER = tuple(
    Query(name, _WORDS[name], _ENUMS[name][1]) if name in _ENUMS else Query(name, _WORDS[name])
    for name in _FIELDS
)
_NOT_CREATED = ("UNKNOWN", "ANY", "MATCH")
_ALWAYS_NAMED = tuple(_ENUMS)
_DELETED = tuple(replace(each, required=each.name in _ALWAYS_NAMED) for each in _FILTER)


@operation(
    "GET",
    _PATH,
    "getKafkaV3Acls",
    "Search ACLs",
    tag=_TAG,
    right=Right("read", "cluster"),
    answers={200: "AclDataList"},
    query=_FILTER,
)
async def search(call: Call) -> Response:
    wanted = _filter(call)
    found = await call.ask(partial(find_acls, wanted=wanted))
    url = call.links.url("clusters", call.cluster_id, "acls", query=_shown(wanted))
    return await call.answer_list("KafkaAclList", url, found, partial(_acl_data, call))


@operation(
    "POST",
    _PATH,
    "createKafkaV3Acls",
    "Create an ACL",
    tag=_TAG,
    right=Right("configure", "cluster"),
    answers={201: None},
    body="CreateAclRequestData",
)
async def create(call: Call) -> Response:
    acl = _created(await call.body())
    await call.ask(partial(create_acls, acls=[acl]))
    return call.done(201, call.links.url("clusters", call.cluster_id, "acls", query=_shown(acl)))


@operation(
    "POST",
    _PATH + ":batch",
    "batchCreateKafkaV3Acls",
    "Create several ACLs",
    tag=_TAG,
    right=Right("configure", "cluster"),
    answers={201: None},
    body="CreateAclRequestDataList",
)
async def create_several(call: Call) -> Response:
    acls = [_created(each) for each in fields.objects(await call.body(), "data")]
    if acls:
        await call.ask(partial(create_acls, acls=acls))
    return call.done(201, call.links.url("clusters", call.cluster_id, "acls"))


@operation(
    "DELETE",
    _PATH,
    "deleteKafkaV3Acls",
    "Delete the ACLs that match",
    tag=_TAG,
    right=Right("configure", "cluster"),
    answers={200: "DeletedAcls"},
    query=_DELETED,
)
async def delete(call: Call) -> Response:
    deleted = await call.ask(partial(delete_acls, filters=[_deleted(call)]))
    return call.answer({"data": [_acl_data(call, each) for each in deleted]})


def _filter(call: Call) -> AclFilter:
    values: dict[str, Any] = {}
    for name in _FIELDS:
        if name in _ENUMS:
            values[name] = _member(name, call.query(name) or "ANY", ("UNKNOWN",))
        else:
            values[name] = call.query(name)
    return AclFilter(**values)


def _deleted(call: Call) -> AclFilter:
    """As `_filter`, but what is left out deletes nothing: the enums are always said, be it `any`, and a
    filter that would match every ACL, or all of one permission, is refused. HttpProblem 400.
    """
    missing = [name for name in _ALWAYS_NAMED if call.query(name) is None]
    if missing:
        raise HttpProblem(
            BAD_REQUEST,
            f"{', '.join(missing)} must be given to delete ACLs ({missing[0]}=any matches all); "
            "nothing was deleted.",
        )
    wanted = _filter(call)
    if not any((wanted.resource_name, wanted.principal, wanted.host)) and all(
        getattr(wanted, name) == _ENUMS[name][0]["ANY"] for name in ("resource_type", "operation")
    ):
        raise HttpProblem(
            BAD_REQUEST,
            "This filter matches all ACLs, or all of one permission: name a resource_type, resource_name, "
            "principal, host or operation; nothing was deleted.",
        )
    return wanted


def _created(body: Mapping[str, Any]) -> Acl:
    values: dict[str, Any] = {}
    for name in _FIELDS:
        text = fields.text(body, name)
        values[name] = _member(name, text, _NOT_CREATED) if name in _ENUMS else text
    if ":" not in values["principal"]:  # of several ACLs the broker would create the others
        raise HttpProblem(
            BAD_REQUEST, f"principal must read User:name, and not {fields.shown(body['principal'])}."
        )
    return Acl(**values)


def _member(name: str, text: str, refused: tuple[str, ...]) -> IntEnum:
    known = _ENUMS[name][0]
    word = text.upper()
    if word not in known.__members__:
        allowed = ", ".join(each for each in known.__members__ if each not in refused)
        raise HttpProblem(400, f"{name} {fields.shown(text)} is not known: there are {allowed}.")
    if word in refused:
        raise HttpProblem(BAD_REQUEST, f"{name} cannot be {word}.")
    return known[word]


def _shown(acl: Acl | AclFilter) -> dict[str, str]:
    return {
        "resource_type": _name_of(ResourceType, acl.resource_type),
        "resource_name": acl.resource_name or "",
        "pattern_type": _name_of(PatternType, acl.pattern_type),
        "principal": acl.principal or "",
        "host": acl.host or "",
        "operation": _name_of(Operation, acl.operation),
        "permission": _name_of(Permission, acl.permission),
    }


def _name_of(known: type[IntEnum], number: int) -> str:
    """The name of a number; of one that is newer than this proxy, UNKNOWN."""
    return next((each.name for each in known if each == number), "UNKNOWN")


def _acl_data(call: Call, acl: Acl) -> dict[str, Any]:
    shown = _shown(acl)
    url = call.links.url("clusters", call.cluster_id, "acls", query=shown)
    return resource("KafkaAcl", url, None, {"cluster_id": call.cluster_id, **shown})
