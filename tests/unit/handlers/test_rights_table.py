"""The table of rights is whole: an API without a row fails here, and so does a row that cannot be right."""

import pytest

from moldau.broker.handlers import load_all
from moldau.broker.handlers.parts.registry import TABLE
from moldau.broker.handlers.parts.rights_document import document
from moldau.broker.handlers.parts.rights_table import RIGHTS
from moldau.common.protocol.operations import OPERATIONS_OF, Operation, ResourceType

load_all()

ONLY_ALL_GIVES_IT = {(Operation.DELETE, ResourceType.CLUSTER)}
"""Kafka asks for it, although no ACL of this operation can be made."""


def test_each_api_has_a_row_and_each_row_an_api() -> None:
    assert RIGHTS.keys() == {entry.name for entry in TABLE.values()}


@pytest.mark.parametrize("name", sorted(RIGHTS))
def test_a_row_names_rights_that_exist_or_says_why_there_are_none(name: str) -> None:
    row = RIGHTS[name]
    (entry,) = [each for each in TABLE.values() if each.name == name]
    assert bool(row.checks) != bool(row.why)
    for check in row.checks:
        for operation, resource_type in ((check.operation, check.resource_type), *check.instead):
            right = operation, resource_type
            assert operation in OPERATIONS_OF[resource_type] or right in ONLY_ALL_GIVES_IT, (name, right)
        low, high = check.versions
        assert low <= entry.max_version
        assert high >= entry.min_version
        assert low in (0, *range(entry.min_version, entry.max_version + 1))
        assert check.refused is None or "AUTHORIZATION_FAILED" in check.refused.name


def test_the_page_is_made_from_the_table(pytestconfig: pytest.Config) -> None:
    page = pytestconfig.rootpath / "docs" / "rights.md"
    remedy = "run: python -m moldau.broker.handlers.parts.rights_document > docs/rights.md"
    assert page.read_text() == document(), remedy


def test_every_version_that_asks_for_a_right_once_asks_for_one_ever_after() -> None:
    for entry in TABLE.values():
        checks = RIGHTS[entry.name].checks
        asked = [
            any(check.holds_for(version) and not check.optional for check in checks)
            for version in range(entry.min_version, entry.max_version + 1)
        ]
        assert asked == sorted(asked), entry.name
