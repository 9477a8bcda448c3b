"""Decisions about ACLs: creating them, and deleting those that filters match.

Each of a request succeeds or fails by itself. Creating one that is there already succeeds and changes
nothing; a filter that matches nothing deletes nothing. ACLs may be about resources that do not exist (yet).

Many are cut into entries (decision.py). At no moment in between is more allowed than before or after: denials
are created first, and deleted last.

What may be in an ACL is Kafka's, and two rules of ours: a host with a `/` must be a network, as it would
match nobody else, and there are limits on the length of hosts and on the number of ACLs. (The protocol
limits the length of names.)
"""

from collections.abc import Callable, Iterator, Sequence

from moldau.broker.controller.decision import DONE, RECORDS_MAX, TOO_LARGE, Decision, Outcome, Refusal, Steps
from moldau.broker.metadata.changes import AclsCreated, AclsDeleted, Change
from moldau.broker.metadata.image import Image
from moldau.common.access.acl_index import network_of
from moldau.common.protocol.acls import Acl, AclFilter
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.operations import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType

ACLS_MAX = 100_000
"""Of a cluster."""
HOST_CHARACTERS_MAX = 255
ACLS_AN_ENTRY = 1_000
_FILTERS_MAX = RECORDS_MAX

Deleted = list[tuple[Outcome, Sequence[Acl]]]


def create_acls(image: Image, asked: Sequence[Acl]) -> Steps[list[Outcome]]:
    """Decide on new ACLs; an outcome for each, in order."""
    if len(asked) > RECORDS_MAX:
        return Decision([], [TOO_LARGE] * len(asked))
    outcomes: list[Outcome] = []
    fresh: dict[Acl, None] = {}
    for acl in asked:
        yield
        try:
            check_acl(acl)
            if acl not in image.acls and acl not in fresh:
                if len(image.acls) + len(fresh) >= ACLS_MAX:
                    raise Refusal(
                        ErrorCode.POLICY_VIOLATION, f"There are {ACLS_MAX} ACLs, which is the limit."
                    )
                fresh[acl] = None
        except Refusal as refusal:
            outcomes.append(refusal.outcome)
        else:
            outcomes.append(DONE)
    denials_first = sorted(fresh, key=lambda acl: acl.permission != Permission.DENY)
    *earlier, changes = _entries(denials_first, AclsCreated)
    return Decision(changes, outcomes, earlier)


def delete_acls(
    image: Image, filters: Sequence[AclFilter], found: dict[int, dict[Acl, None]]
) -> Steps[Deleted]:
    """Decide on ACLs to delete: what each filter matched, in order. `found` is kept between attempts: what an
    entry has deleted before a conflict is part of the answer.
    """
    if len(filters) > _FILTERS_MAX:
        return Decision([], [(TOO_LARGE, ())] * len(filters))
    answer: Deleted = []
    gone: dict[Acl, None] = {}
    for number, each in enumerate(filters):
        yield
        complaint = each.complaint()
        if complaint is not None:
            answer.append((Outcome(ErrorCode.INVALID_REQUEST, complaint), ()))
            continue
        matching = yield from each.found(image.acls)
        if len(gone) + len(matching) > RECORDS_MAX:
            message = f"Cannot remove more than {RECORDS_MAX} acls in a single delete operation."
            too_many = Outcome(ErrorCode.POLICY_VIOLATION, message)
            return Decision([], [(too_many, ())] * len(filters))
        told = found.setdefault(number, {})
        told.update(dict.fromkeys(matching))
        gone.update(dict.fromkeys(matching))
        answer.append((DONE, list(told)))
    denials_last = sorted(gone, key=lambda acl: acl.permission == Permission.DENY)
    *earlier, changes = _entries(denials_last, AclsDeleted)
    return Decision(changes, answer, earlier)


def _entries(acls: Sequence[Acl], change: Callable[[tuple[Acl, ...]], Change]) -> Iterator[list[Change]]:
    for start in range(0, max(len(acls), 1), ACLS_AN_ENTRY):
        part = tuple(acls[start : start + ACLS_AN_ENTRY])
        yield [change(part)] if part else []


def check_acl(acl: Acl) -> None:
    """Refusal: the ACL makes no sense."""
    for text, value, kind, lowest in (
        ("resourceType", acl.resource_type, ResourceType, ResourceType.TOPIC),
        ("patternType", acl.pattern_type, PatternType, PatternType.LITERAL),
        ("operation", acl.operation, Operation, Operation.ALL),
        ("permissionType", acl.permission, Permission, Permission.DENY),
    ):
        if value < lowest or value not in kind.__members__.values():
            raise _invalid(f"Invalid {text} {_shown(kind, value)}")
    if not acl.resource_name:
        raise _invalid("Resource name should not be empty")
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if ":" not in acl.principal:
        raise _invalid(
            f"Could not parse principal from `{acl.principal[:100]}` (no colon is present separating the "
            "principal type from the principal name)"
        )
    if "/" in acl.host and network_of(acl.host) is None:
        raise _invalid(f"Host `{acl.host[:100]}` is neither an address nor a network such as 10.0.0.0/8")
    if not acl.host:
        raise _invalid("Host should not be empty")
    if len(acl.host) > HOST_CHARACTERS_MAX:
        raise _invalid(f"A host may have {HOST_CHARACTERS_MAX} characters, not more")


def _shown(kind: type[ResourceType | PatternType | Operation | Permission], value: int) -> str:
    return kind(value).name if value in kind.__members__.values() else "UNKNOWN"


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)
