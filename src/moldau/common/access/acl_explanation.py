"""Which rule decides: the ACLs that apply to a resource, and what comes of them for one client.

The decision is the broker's own code (acl_index.py) on the ACLs and settings that the broker tells;
what is shown beside it are the ACLs that were looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from moldau.common.access.acl_index import AclIndex, Verdict, plain_host
from moldau.common.protocol.acls import Acl
from moldau.common.protocol.operations import ANY_USER


class Explanation(NamedTuple):
    """`rule` in a sentence; `deciding`: the ACLs behind it."""

    allowed: bool
    rule: str
    deciding: Sequence[Acl]
    others: Sequence[Acl]
    """ACLs for the resource that say nothing about this client and operation."""


class Question(NamedTuple):
    """Who wants to do what, from where."""

    principal: str
    host: str
    operation: int
    resource_type: int
    name: str


def explain(
    question: Question, acls: Sequence[Acl], super_users: Sequence[str], *, allow_everyone: bool
) -> Explanation:
    """Decide on the ACLs that apply to the resource, as a broker does."""
    if question.principal in super_users:
        return Explanation(True, f"{question.principal} is one of super.users", (), acls)
    denying = [acl for acl in acls if _verdict([acl], question).denied]
    allowing = [acl for acl in acls if _verdict([acl], question).allowed]
    deciding = denying or allowing
    others = [acl for acl in acls if acl not in deciding]
    denied, allowed = _verdict(acls, question)
    if denied:
        outweighs = ", which outweighs all that allow" if allowing else ""
        return Explanation(False, f"an ACL denies it{outweighs}", denying, others)
    if allowed:
        return Explanation(True, "an ACL allows it, and none denies it", allowing, others)
    if acls:
        who = f"{question.principal} or {ANY_USER}"
        rule = f"no ACL of {question.name} is about {who}, this operation and this host"
        return Explanation(False, rule, (), others)
    if allow_everyone:
        rule = "there is no ACL for it, and allow.everyone.if.no.acl.found=true"
        return Explanation(True, rule, (), ())
    return Explanation(False, "there is no ACL for it", (), ())


def _verdict(acls: Sequence[Acl], question: Question) -> Verdict:
    host = plain_host(question.host)
    return AclIndex(acls).verdict(question.principal, host, *question[2:])
