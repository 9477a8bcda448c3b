"""Paths and parameters become calls of the service; read-only and forwarding stand before them."""

from typing import Any

import pytest
from recorded_routes import SCHEMA, Recorder, ask

from moldau.services.registry.problems import NotPrimary, RegistryProblem

NO_PAGE = {"offset": 0, "limit": -1}
LISTED = {"deleted": False, "deleted_only": False, **NO_PAGE}
PLAIN = {"normalize": False, "format": ""}
FORMATS = {"format": "", "reference_format": ""}


@pytest.mark.parametrize(
    ("method", "path", "body", "call"),
    [
        ("GET", "/subjects", None, ("subjects", ":*:", LISTED)),
        ("GET", "/subjects?subjectPrefix=", None, ("subjects", "", LISTED)),
        (
            "GET",
            "/subjects?subjectPrefix=o&deleted=true&deletedOnly=TRUE&offset=1&limit=2",
            None,
            ("subjects", "o", {"deleted": True, "deleted_only": True, "offset": 1, "limit": 2}),
        ),
        ("GET", "/contexts/ctx/subjects", None, ("subjects", ":.ctx:", LISTED)),
        ("GET", "/subjects?subjectPrefix=a&subjectPrefix=b&subjectPrefix=a", None,
         ("subjects", "a", "b", LISTED)),
        ("GET", "/contexts/ctx/subjects?subjectPrefix=a&subjectPrefix=:.x:b", None,
         ("subjects", ":.ctx:a", ":.x:b", LISTED)),
        ("GET", "/contexts/:.ctx:/subjects?subjectPrefix=o", None, ("subjects", ":.ctx:o", LISTED)),
        ("GET", "/contexts/:.:/subjects", None, ("subjects", "", LISTED)),
        (
            "POST",
            "/subjects/a%2Fb?normalize=true&deleted=true&format=resolved",
            SCHEMA,
            ("look_up", "a/b", SCHEMA, {"normalize": True, "format": "resolved", "deleted": True}),
        ),
        ("POST", "/subjects/s/versions", SCHEMA, ("register", "s", SCHEMA, PLAIN)),
        (
            "POST",
            "/contexts/.ctx/subjects/s/versions?normalize=true",
            SCHEMA,
            ("register", ":.ctx:s", SCHEMA, {"normalize": True, "format": ""}),
        ),
        (
            "POST",
            "/contexts/.ctx/subjects/:.other:s/versions",
            SCHEMA,
            ("register", ":.other:s", SCHEMA, PLAIN),
        ),
        (
            "GET",
            "/subjects/s/versions?deletedAsNegative=true",
            None,
            ("versions", "s", {**LISTED, "deleted_as_negative": True}),
        ),
        (
            "GET",
            "/subjects/s/versions/latest?format=f&referenceFormat=x&deleted=true",
            None,
            ("version", "s", "latest", {"format": "f", "reference_format": "x", "deleted": True}),
        ),
        ("GET", "/subjects/s/versions/1/schema", None, ("version", "s", "1", {**FORMATS, "deleted": False})),
        ("GET", "/subjects/s/versions/1/referencedby?limit=3", None,
         ("referenced_by", "s", "1", {"offset": 0, "limit": 3})),
        ("GET", "/subjects/s/metadata?key=a&value=1&key=b&value=2", None,
         ("with_metadata", "s", {"a": "1", "b": "2"}, {"format": "", "deleted": False})),
        ("DELETE", "/subjects/s?permanent=true", None, ("delete_subject", "s", {"permanent": True})),
        ("DELETE", "/subjects/s/versions/2", None, ("delete_version", "s", "2", {"permanent": False})),
        ("GET", "/schemas/types", None, ("types", {})),
        ("GET", "/schemas?latestOnly=true&aliases=true&ruleType=CEL", None,
         ("schemas", ":*:", {"deleted": False, "latest_only": True, "aliases": True, "rule_type": "CEL",
                             **NO_PAGE})),
        ("POST", "/subjects/s/versions/latest/tags", {"newVersion": 2},
         ("change_tags", "s", "latest", {"newVersion": 2}, {})),
        ("POST", "/contexts/ctx/subjects/s/versions/1/tags", {}, ("change_tags", ":.ctx:s", "1", {}, {})),
        ("GET", "/schemas/ids/7", None, ("schema_by_id", 7, None, {"fetch_max_id": False})),
        ("GET", "/schemas/ids/7?subject=s&format=serialized&fetchMaxId=true", None,
         ("schema_by_id", 7, "s", {"format": "serialized", "reference_format": "", "fetch_max_id": True})),
        ("GET", "/contexts/.ctx/schemas/ids/7", None, ("schema_by_id", 7, ":.ctx:", {"fetch_max_id": False})),
        ("GET", "/contexts/.ctx/schemas/ids/7/schema?subject=s", None,
         ("schema_by_id", 7, ":.ctx:s", {"fetch_max_id": False})),
        ("GET", "/schemas/ids/7/subjects?deleted=true", None,
         ("subjects_of_id", 7, None, {"deleted": True, **NO_PAGE})),
        ("GET", "/schemas/ids/7/versions", None, ("versions_of_id", 7, None, {"deleted": False, **NO_PAGE})),
        ("GET", "/schemas/guids/5", None, ("schema_by_guid", "5", {"format": ""})),
        ("GET", "/schemas/guids/5/ids", None, ("ids_of_guid", "5", {})),
        ("POST", "/compatibility/subjects/s/versions/latest?verbose=true", SCHEMA,
         ("compatibility", "s", "latest", SCHEMA, {"normalize": False, "verbose": True})),
        ("POST", "/compatibility/subjects/s/versions?normalize=true", SCHEMA,
         ("compatibility", "s", None, SCHEMA, {"normalize": True, "verbose": False})),
        ("GET", "/config", None, ("config", None, {"default_to_global": False})),
        ("GET", "/config/s?defaultToGlobal=true", None, ("config", "s", {"default_to_global": True})),
        ("PUT", "/config/s", {"compatibility": "FULL"}, ("set_config", "s", {"compatibility": "FULL"}, {})),
        ("DELETE", "/config", None, ("delete_config", None, {})),
        ("DELETE", "/config/s", None, ("delete_config", "s", {})),
        ("GET", "/contexts/.ctx/config", None, ("config", ":.ctx:", {"default_to_global": False})),
        ("GET", "/contexts/:.:/config", None, ("config", None, {"default_to_global": False})),
        ("GET", "/mode", None, ("mode", None, {"default_to_global": False})),
        ("PUT", "/mode?force=true", {"mode": "A"}, ("set_mode", None, {"mode": "A"}, {"force": True})),
        ("DELETE", "/mode/s?recursive=true", None, ("delete_mode", "s", {"recursive": True})),
        ("GET", "/v1/metadata/id", None, ("cluster_id", {})),
        ("GET", "/contexts?contextPrefix=.c&limit=5", None, ("contexts", ".c", {"offset": 0, "limit": 5})),
        ("DELETE", "/contexts/ctx", None, ("delete_context", ".ctx", {})),
    ],
)  # fmt: skip
def test_a_path_is_a_call(method: str, path: str, body: Any, call: tuple[Any, ...]) -> None:
    response, calls = ask(method, path, body)
    assert calls == [call]
    assert response.status_code == (204 if "delete_context" in call else 200)


@pytest.mark.parametrize(
    ("path", "body"), [("/", {}), ("/exporters", []), ("/associations/resources/-/orders", [])]
)
def test_what_clients_probe_for(path: str, body: Any) -> None:
    response, calls = ask("GET", path)
    assert (response.status_code, response.json(), calls) == (200, body, [])


def test_the_version_is_ours() -> None:
    import moldau

    assert ask("GET", "/v1/metadata/version")[0].json()["version"] == moldau.__version__


def test_texts_come_as_they_are() -> None:
    response, _ = ask("GET", "/subjects/s/versions/1/schema")
    assert response.content == b"text"
    assert response.headers["content-type"].startswith("application/vnd.schemaregistry.v1+json")


@pytest.mark.parametrize("path", ["/schemas/ids/x", "/schemas/ids/99999999999", "/subjects?limit=many"])
def test_what_should_be_a_number_and_is_none_is_not_found(path: str) -> None:
    response, calls = ask("GET", path)
    assert (response.status_code, calls) == (404, [])


@pytest.mark.parametrize(
    ("content", "content_type", "status"),
    [
        (b"", "application/json", 422),
        (b"  ", "application/json", 422),
        (b"[]", "application/json", 400),
        (b"null", "application/json", 400),
        (b"{", "application/json", 400),
        (b"{}", "text/xml", 415),
        (b"{}", "application/vnd.schemaregistry.v1+json; charset=utf-8", 200),
        (b"{}", "application/octet-stream", 200),
        (b'{"schema":"' + b"x" * 200_000 + b'"}', "application/json", 200),
        (b'{"schema":"' + b"x" * 1024 * 1024 + b'y"}', "application/json", 422),
        (b'{"schema":"' + b"x" * 4 * 1024 * 1024 + b'"}', "application/json", 413),
    ],
)
def test_bodies(content: bytes, content_type: str, status: int) -> None:
    response, _ = ask("POST", "/subjects/s/versions", content=content, headers={"Content-Type": content_type})
    assert response.status_code == status


def test_a_text_that_is_too_large_is_not_parsed() -> None:
    for path in ("/subjects/s", "/subjects/s/versions", "/compatibility/subjects/s/versions"):
        response, calls = ask("POST", path, {"schema": "x" * (1024 * 1024 + 1)})
        assert (response.json()["error_code"], calls) == (42209, [])


def test_a_body_with_very_many_values_is_not_parsed() -> None:
    body = b'{"schema":"[0,0]","more":[' + b"0," * 50_000 + b"0]}"
    response, calls = ask("POST", "/subjects/s/versions", content=body)
    assert (response.status_code, response.json()["error_code"], calls) == (413, 413, [])
    response, calls = ask("POST", "/subjects/s/versions", {"schema": "[" + '"a",' * 60_000 + '""]'})
    assert (response.status_code, len(calls)) == (200, 1)  # a schema is one value


def test_refusals_have_confluents_form() -> None:
    service = Recorder()
    service.failure = RegistryProblem(40401, "Subject 's' not found.")
    response, _ = ask("GET", "/subjects/s/versions", service=service)
    assert response.status_code == 404
    assert response.json() == {"error_code": 40401, "message": "Subject 's' not found."}


def test_a_write_elsewhere_is_forwarded_and_then_read_here() -> None:
    service = Recorder()
    service.failure = NotPrimary("http://other:8081")
    response, _ = ask("POST", "/subjects/s/versions?normalize=true", SCHEMA, service=service)
    assert response.text == 'forwarded to http://other:8081: POST /subjects/s/versions {"schema":"{}"}'
    assert [call[0] for call in service.calls] == ["register", "catch_up"]


def test_a_read_only_registry_writes_nothing() -> None:
    for method, path in (
        ("POST", "/subjects/s/versions"),
        ("DELETE", "/subjects/s"),
        ("DELETE", "/subjects/s/versions/1"),
        ("PUT", "/config"),
        ("DELETE", "/config/s"),
        ("PUT", "/mode/s"),
        ("DELETE", "/mode/s"),
        ("DELETE", "/contexts/c"),
        ("POST", "/subjects/s/versions/1/tags"),
    ):
        response, calls = ask(method, path, SCHEMA, is_read_only=True)
        assert (response.status_code, response.json()["error_code"], calls) == (422, 42205, [])
    assert ask("POST", "/subjects/s", SCHEMA, is_read_only=True)[0].status_code == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/config/", 404),
        ("/mode/?recursive=true", 404),
        ("/subjects/s/", 404),
        ("/subjects/s//", 404),
        ("/contexts//config", 404),
        ("/contexts/.ctx/config/", 404),
        ("/subjects/s?version=3", 400),
        ("/subjects/s?permanent=", 400),
        ("/subjects/s?permanent=yes", 400),
        ("/subjects/s?permanent=false&permanent=true", 400),
        ("/subjects/s/versions/2?permanant=true", 400),
        ("/config?subject=s", 400),
        ("/mode?subject=s", 400),
        ("/mode/s?recursive", 400),
        ("/contexts/ctx?subject=s", 400),
        ("/subjects/s/versions/", 405),
        ("/subjects/", 405),
    ],
)
def test_what_is_left_out_or_misspelt_deletes_nothing(path: str, status: int) -> None:
    response, calls = ask("DELETE", path)
    assert calls == []
    assert response.status_code == status


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
@pytest.mark.parametrize("path", ["/dek-registry/v1/keks", "/contexts/.c/dek-registry/v1/keks/a/deks/b"])
def test_keys_are_refused_so_that_clients_make_none(method: str, path: str) -> None:
    response, calls = ask(method, path, {})
    assert (response.status_code, calls) == (501, [])
    assert "data encryption keys" in response.json()["message"]
