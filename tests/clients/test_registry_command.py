"""`moldau registry`, `moldau serve --with` and `moldau schemas` as a user types them."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from registry_clients import AVRO_1, AVRO_2, AVRO_UNFIT, PROTO_1

from moldau.testing import SchemaRegistry
from moldau.tools.app import run


def started(words: list[str]) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """A command in a process of its own, and its ready line."""
    process = subprocess.Popen(
        [sys.executable, "-m", "moldau", *words, "--json"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


def ended(process: subprocess.Popen[str]) -> int:
    """Ask it to stop; its exit code."""
    process.send_signal(signal.SIGTERM)
    try:
        return process.wait(60)
    finally:
        process.kill()
        assert process.stdout is not None
        process.stdout.close()


def test_a_registry_of_its_own_process(bootstrap: str, tmp_path: Path) -> None:
    config = tmp_path / "schema-registry.properties"
    config.write_text(
        f"kafkastore.bootstrap.servers=PLAINTEXT://{bootstrap}\nkafkastore.topic=_schemas_command\n"
        "schema.registry.group.id=command\n"
        "schema.compatibility.level=full\nlisteners=http://127.0.0.1:0\n"
    )
    process, ready = started(["registry", "--config", str(config)])
    try:
        (url,) = ready["addresses"]
        assert ready["topic"] == "_schemas_command"
        assert httpx.get(f"{url}/config", timeout=60).json() == {"compatibilityLevel": "FULL"}
        assert httpx.get(f"{url}/subjects", timeout=60).json() == []
        assert httpx.get(f"{url}/health", timeout=60).status_code in (200, 503)
    finally:
        assert ended(process) == 0


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["--listen", "nonsense"], 2, "write http://HOST:PORT"),
        (["--set", "schema.compatibility.level=odd"], 2, "schema.compatibility.level"),
        (["--set", "moldau.http.users.file=/nowhere/users"], 2, "No such file"),
        (["--config", "/nowhere/file"], 2, "cannot be read"),
        (["-b", "127.0.0.1:1", "--set", "kafkastore.init.timeout.ms=500", "-l", "127.0.0.1:0"], 1, "cannot"),
    ],
)
def test_a_registry_that_cannot_start(words: list[str], code: int, sentence: str, bootstrap: str) -> None:
    named = words if "-b" in words else ["-b", bootstrap, *words]
    done = subprocess.run(
        [sys.executable, "-m", "moldau", "registry", *named],
        check=False, capture_output=True, text=True, timeout=110,
    )  # fmt: skip
    last = done.stderr.strip().splitlines()[-1]
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert last.startswith("moldau: ")
    assert sentence in last
    assert "Traceback" not in done.stderr


def test_services_beside_a_broker(tmp_path: Path) -> None:
    words = ["serve", "--data", str(tmp_path), "--port", "0", "--http", "off"]
    words += ["--with", "registry=127.0.0.1:0,rest=127.0.0.1:0"]
    words += ["--set", "registry.schema.compatibility.level=none"]
    process, ready = started(words)
    try:
        registry, rest = ready["registry_url"], ready["rest_url"]
        assert httpx.get(f"{registry}/config", timeout=60).json() == {"compatibilityLevel": "NONE"}
        body = {"schema": AVRO_1}
        answer = httpx.post(f"{registry}/subjects/beside-value/versions", json=body, timeout=60)
        assert answer.json()["version"] == 1
        record = {"value": {"subject": "beside-value", "schema_version": 1,
                            "data": {"id": 1, "item": "tea"}}}  # fmt: skip
        cluster = httpx.get(f"{rest}/v3/clusters", timeout=60).json()["data"][0]["cluster_id"]
        answer = httpx.post(f"{rest}/v3/clusters/{cluster}/topics/beside/records", json=record, timeout=60)
        assert answer.json().get("offset") == 0, answer.text
    finally:
        assert ended(process) == 0


def test_a_service_that_cannot_start_ends_the_broker(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        words = [
            "serve",
            "--data",
            str(tmp_path),
            "--port",
            "0",
            "--http",
            "off",
            "--with",
            f"registry={port}",
        ]
        done = subprocess.run(
            [sys.executable, "-m", "moldau", *words], check=False, capture_output=True, text=True, timeout=110
        )
    last = done.stderr.strip().splitlines()[-1]
    assert (done.returncode, done.stdout) == (1, "")
    assert last.startswith(
        f"moldau: the schema registry cannot start: 127.0.0.1:{port} cannot be listened on"
    )
    assert "Traceback" not in done.stderr


def test_the_fixture_of_other_projects(moldau_schema_registry: SchemaRegistry) -> None:
    assert httpx.get(f"{moldau_schema_registry.url}/subjects", timeout=60).json() == []


@pytest.fixture(scope="module")
def registry(bootstrap: str) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(bootstrap, {"kafkastore.topic": "_schemas_typed"}) as running:
        yield running


class Typed:
    """`moldau schemas` with a registry: exit code and output of what is typed."""

    def __init__(self, url: str, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._url = url
        self._capture = capture

    def file(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return str(self.folder / name)

    def __call__(self, *words: str) -> tuple[int, str, str]:
        self._capture.readouterr()
        code = run(["schemas", *words, "--schema-registry", self._url])
        return (code, *self._capture.readouterr())


@pytest.fixture
def typed(registry: SchemaRegistry, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Typed:
    return Typed(registry.url, tmp_path, capsys)


def test_schemas_from_first_to_last(typed: Typed) -> None:
    first, second = typed.file("1.avsc", AVRO_1), typed.file("2.avsc", AVRO_2)
    assert typed("register", "typed-value", first)[:2] == (0, "typed-value: version 1, id 1\n")
    assert typed("register", "typed-value", first)[:2] == (0, "typed-value: version 1, id 1\n")
    assert typed("check", "typed-value", second)[:2] == (0, "it fits typed-value\n")
    assert typed("register", "typed-value", second)[:2] == (0, "typed-value: version 2, id 2\n")
    code, output, _ = typed("list")
    assert code == 0
    assert output.splitlines()[1].split() == ["typed-value", "2", "2", "AVRO"]
    code, output, beside = typed("show", "typed-value", "--version", "1")
    assert json.loads(output) == json.loads(AVRO_1)
    assert "typed-value, version 1, id 1, AVRO" in beside
    assert json.loads(typed("show", "--id", "2")[1]) == json.loads(AVRO_2)
    assert typed("show", "typed-value", "--versions", "--json")[1].count('"version"') == 2
    code, output, _ = typed("diff", "typed-value")
    assert code == 0
    assert '+      "name": "note",' in output
    assert "BACKWARD: a reader with typed-value, version 2 understands" in output
    assert "FORWARD: a reader with typed-value, version 1 understands" in output
    assert typed("delete", "typed-value", "--version", "1")[1] == "typed-value: version 1 deleted\n"
    assert typed("delete", "typed-value")[1] == "typed-value: version 2 deleted\n"
    assert typed("list", "typed")[2] == "no subject begins with typed\n"
    assert "deleted" in typed("list", "--deleted")[1]
    assert typed("delete", "typed-value", "--permanent")[1] == "typed-value: version 1, 2 deleted for good\n"


def test_what_does_not_fit_is_explained(typed: Typed) -> None:
    typed("register", "unfit-value", typed.file("1.avsc", AVRO_1))
    unfit = typed.file("unfit.avsc", AVRO_UNFIT)
    code, output, _ = typed("check", "unfit-value", unfit)
    assert code == 1
    assert "it does not fit unfit-value, version 1 (level BACKWARD: readers of the new schema" in output
    assert "TYPE_MISMATCH" in output
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in output
    assert "what helps: give the new field a default" in output
    code, output, error = typed("register", "unfit-value", unfit)
    assert (code, "TYPE_MISMATCH" in output) == (1, True)
    assert error.endswith("was not registered in unfit-value: it does not fit earlier versions\n")
    code, output, _ = typed("diff", "unfit-value", "--file", unfit)
    assert "BACKWARD: a reader with " in output
    assert "does not understand what was written with unfit-value, version 1:" in output
    assert json.loads(typed("check", "unfit-value", unfit, "--json")[1])["is_compatible"] is False


def test_another_language_and_references(typed: Typed) -> None:
    typed("register", "base-value", typed.file("order.proto", PROTO_1))
    user = 'syntax = "proto3";\nimport "order.proto";\nmessage Cart { repeated shop.Order orders = 1; }\n'
    words = ["cart-value", typed.file("cart.proto", user), "--reference", "order.proto=base-value:1"]
    assert typed("register", *words)[0] == 0
    code, output, beside = typed("show", "cart-value")
    assert "repeated" in output
    assert "refers by order.proto to base-value, version 1" in beside
    assert typed("delete", "base-value")[2].startswith("moldau: the registry refused: ")
    code, _, error = typed("register", "broken-value", typed.file("broken.proto", "message {"))
    assert (code, error.startswith("moldau: the registry refused: ")) == (1, True)


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["show", "never"], 1, "`moldau schemas list` names the subjects"),
        (["show"], 2, "name either a subject or --id ID"),
        (["show", "--id", "99999"], 1, "40403"),
        (["diff", "never"], 1, "40401"),
        (["diff", "never", "order.avsc"], 2, "--file order.avsc"),
        (["register", "x", "/nowhere.avsc"], 2, "cannot be read"),
        (["delete", "never", "--permanent"], 1, "40401"),
    ],
)
def test_mistakes_are_sentences(typed: Typed, words: list[str], code: int, sentence: str) -> None:
    found, output, error = typed(*words)
    assert (found, output) == (code, "")
    assert error.startswith("moldau: ")
    assert sentence in error


def test_a_login_is_asked_for_and_taken(
    bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "users").write_text("ann: pw\n")
    (tmp_path / "rights").write_text("ann read,write subject:mine-*\n")
    settings = {
        "kafkastore.topic": "_schemas_secured",
        "moldau.http.users.file": str(tmp_path / "users"),
        "moldau.http.rights.file": str(tmp_path / "rights"),
    }
    with SchemaRegistry(bootstrap, settings) as registry:
        typed = Typed(registry.url, tmp_path, capsys)
        schema = typed.file("1.avsc", AVRO_1)
        assert "log in with -R basic.auth.user.info=NAME:PASSWORD" in typed("list")[2]
        login = ["-R", "basic.auth.user.info=ann:pw"]
        assert typed("register", "mine-value", schema, *login)[0] == 0
        assert (
            "User:ann is denied operation Write on Subject: other"
            in typed("register", "other", schema, *login)[2]
        )
        assert typed("list", *login)[1].splitlines()[1].startswith("mine-value")


def test_a_registry_that_only_reads(bootstrap: str) -> None:
    settings = {"kafkastore.topic": "_schemas_read"}
    with SchemaRegistry(bootstrap, settings) as writing:
        body = {"schema": AVRO_1}
        registered = httpx.post(f"{writing.url}/subjects/s/versions", json=body, timeout=60).json()
    with SchemaRegistry(bootstrap, settings, is_read_only=True) as reading:
        found = httpx.get(f"{reading.url}/schemas/ids/{registered['id']}", timeout=60)
        assert json.loads(found.json()["schema"]) == json.loads(AVRO_1)
        refused = httpx.post(f"{reading.url}/subjects/other/versions", json=body, timeout=60)
        assert (refused.status_code, refused.json()["error_code"]) == (422, 42205)
        assert httpx.get(f"{reading.url}/health", timeout=60).json()["ready"] is True


def test_a_command_starts_without_the_registrys_libraries() -> None:
    program = (
        "import sys, moldau.tools.commands.schemas.command, moldau.tools.commands.registry.command\n"
        "print([each for each in ('uvicorn', 'starlette', 'avro', 'confluent_kafka') if each in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, env={**os.environ}
    )
    assert done.stdout == "[]\n"
