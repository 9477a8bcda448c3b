"""Rights to subjects stand before the routes, also where another instance has just written."""

import json
from typing import Any

import pytest
from recorded_routes import SCHEMA, Recorder, ask

from moldau.services.registry.problems import RegistryProblem

RIGHTS = """
ann   read,write          subject:orders
ann   configure           subject:orders
ctx   all                 subject::.ctx:*
ops   configure           cluster:registry
"""


@pytest.mark.parametrize(
    ("who", "method", "path", "body", "status"),
    [
        ("ann", "POST", "/subjects/orders/versions", SCHEMA, 200),
        ("ann", "POST", "/subjects/payments/versions", SCHEMA, 403),
        ("ann", "POST", "/subjects/orders", SCHEMA, 200),
        ("bob", "POST", "/subjects/orders", SCHEMA, 403),
        ("ann", "POST", "/subjects/orders/versions/1/tags", {}, 200),
        ("ann", "POST", "/subjects/payments/versions/1/tags", {}, 403),
        ("ann", "DELETE", "/subjects/orders", None, 403),
        ("ann", "GET", "/subjects/orders/versions", None, 200),
        ("bob", "GET", "/subjects/orders/versions/1/schema", None, 403),
        ("ctx", "POST", "/contexts/ctx/subjects/orders/versions", SCHEMA, 200),
        ("ctx", "POST", "/subjects/orders/versions", SCHEMA, 403),
        ("ctx", "PUT", "/contexts/ctx/config", {}, 200),
        ("ann", "PUT", "/contexts/ctx/config", {}, 403),
        ("ann", "GET", "/config", None, 200),
        ("ann", "PUT", "/config", {}, 403),
        ("ops", "PUT", "/config", {}, 200),
        ("ops", "PUT", "/mode", {}, 200),
        ("ann", "PUT", "/config/orders", {"compatibility": "NONE"}, 200),
        ("ann", "PUT", "/config/orders", {"alias": "payments"}, 403),
        ("ann", "GET", "/schemas/ids/1", None, 200),
        ("ann", "GET", "/schemas/ids/2", None, 403),
        ("bob", "GET", "/schemas/ids/1/schema", None, 403),
        ("ann", "GET", "/schemas/guids/1", None, 200),
        ("ann", "GET", "/schemas/guids/2", None, 403),
        ("bob", "GET", "/schemas/guids/1/ids", None, 403),
        ("ann", "POST", "/compatibility/subjects/payments/versions", SCHEMA, 403),
        ("ctx", "DELETE", "/contexts/ctx", None, 204),
        ("ann", "DELETE", "/contexts/ctx", None, 403),
        (
            "ann",
            "POST",
            "/subjects/orders/versions",
            {"schema": "", "references": [{"name": "p", "subject": "payments", "version": 1}]},
            403,
        ),
    ],
)
def test_rights(who: str, method: str, path: str, body: Any, status: int) -> None:
    response, _ = ask(method, path, body, rights=RIGHTS, headers={"X-User": who})
    assert response.status_code == status
    if status == 403:
        assert response.json()["error_code"] == 40301


@pytest.mark.parametrize(
    ("path", "seen"),
    [
        ("/subjects", ["orders"]),
        ("/subjects?offset=1", []),
        ("/schemas/ids/1/subjects", ["orders"]),
        ("/schemas/ids/2/subjects", []),
        ("/schemas", [{"subject": "orders"}]),
        ("/schemas/ids/1/versions", [{"subject": "orders", "version": 1}]),
        ("/contexts", ["."]),
    ],
)
def test_lists_have_only_what_may_be_read(path: str, seen: Any) -> None:
    response, _ = ask("GET", path, rights=RIGHTS, headers={"X-User": "ann"})
    assert json.loads(response.content) == seen


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("GET", "/schemas/ids/7", "schema_by_id"),
        ("GET", "/schemas/ids/7?format=resolved", "schema_by_id"),
        ("GET", "/schemas/guids/g", "schema_by_guid"),
        ("GET", "/subjects/s/versions/latest", "version"),
        ("POST", "/subjects/s", "look_up"),
        ("GET", "/subjects/s/versions", "versions"),
        ("GET", "/subjects/s/metadata", "with_metadata"),
        ("GET", "/subjects/s/versions/1/referencedby", "referenced_by"),
        ("GET", "/schemas/ids/7/versions", "versions_of_id"),
        ("GET", "/schemas/ids/7/subjects", "subjects_of_id"),
        ("GET", "/schemas/guids/g/ids", "ids_of_guid"),
        ("POST", "/compatibility/subjects/s/versions/1", "compatibility"),
    ],
)
def test_what_is_not_found_is_looked_for_again_after_catching_up(method: str, path: str, name: str) -> None:
    """Another instance may have written it, and its client may ask this one at once."""
    service = Recorder()
    service.failure = RegistryProblem(40403, "Schema not found")
    answer, calls = ask(method, path, SCHEMA if method == "POST" else None, service=service)
    assert answer.status_code == 404
    assert "catch_up_after_miss" in [call[0] for call in calls]
    before = [call[0] for call in calls].count(name)
    service.is_behind = True
    service.calls.clear()
    ask(method, path, SCHEMA if method == "POST" else None, service=service)
    assert [call[0] for call in service.calls].count(name) == before + 1


@pytest.mark.parametrize("path", ["/schemas/ids/1", "/schemas/guids/1"])
def test_a_right_is_checked_after_catching_up_too(path: str) -> None:
    """Rights to a schema are those to its subjects, which another instance may just have written."""
    service = Recorder()
    service.failure = RegistryProblem(40403, "Schema not found")
    answer, calls = ask("GET", path, service=service, rights=RIGHTS, headers={"X-User": "ann"})
    assert answer.status_code == 404
    assert "catch_up_after_miss" in [call[0] for call in calls]


def test_what_is_refused_for_another_reason_is_not_looked_for_again() -> None:
    service = Recorder()
    service.failure = RegistryProblem(42202, "The specified version 'x' is not a valid version id.")
    answer, calls = ask("GET", "/subjects/s/versions/x", service=service)
    assert answer.status_code == 422
    assert [call[0] for call in calls] == ["version"]
