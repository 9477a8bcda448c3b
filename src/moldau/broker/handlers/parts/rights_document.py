"""Generates docs/rights.md from the table.

    python -m moldau.broker.handlers.parts.rights_document > docs/rights.md


A test compares the file with this output.
"""

import sys

from moldau.broker.handlers.parts.rights_table import RIGHTS, Check, Right, Rights

_HEAD = """\
# Rights

What a broker with an authorizer asks of each request, before it acts: the operation, on which resource, and
what becomes of who lacks the right. Errors stand in the rows of the resource where the API has them, else in
the response; *left out* means that the response does not have the resource, as if it did not exist. A topic
that is named by its id needs the right to its name, which the answer does not tell.

[ACLs](acls.md) give rights. Made from `src/moldau/broker/handlers/parts/rights_table.py` by
`python -m moldau.broker.handlers.parts.rights_document`.

| API | Operation | On | Without it |
| --- | --- | --- | --- |
"""

_FOR_EVERYBODY = "everybody may; authorized operations are shown with Describe on the cluster"


def document() -> str:
    """The whole page."""
    return _HEAD + "".join(_row(name, RIGHTS[name]) for name in sorted(RIGHTS))


def _row(name: str, rights: Rights) -> str:
    asked = [check for check in rights.checks if not check.optional]
    if not asked:
        return f"| {name} | | {rights.why or _FOR_EVERYBODY} | |\n"
    lines = []
    for check in asked:
        lines.append(f"| {name} | {_operation(check)} | {_resource(check)} | {_outcome(check)} |\n")
        name = ""
    return "".join(lines)


def _operation(check: Check) -> str:
    return " or ".join([_right(Right(check.operation, check.resource_type)), *map(_right, check.instead)])


def _right(right: Right) -> str:
    words = (right.operation.name.replace("_", " ").title().replace(" ", ""), right.resource_type.name)
    return f"{words[0]} on {words[1].replace('_', ' ').capitalize()}"


def _resource(check: Check) -> str:
    low, high = check.versions
    if low == 0 and high > 100:
        return check.of
    return f"{check.of} (versions {low}-{high})" if low < high else f"{check.of} (version {low})"


def _outcome(check: Check) -> str:
    return "left out" if check.refused is None else check.refused.name


if __name__ == "__main__":
    sys.stdout.write(document())
