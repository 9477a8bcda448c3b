"""What `moldau serve --with` is told, and what it refuses before a broker starts."""

import pytest

from moldau.tools.commands.serve.command import MISUSED, Mistake, overrides, parse, serve
from moldau.tools.commands.serve.services import services_of


def test_settings_go_to_whom_they_are_meant_for() -> None:
    words = ["--with", "registry", "-s", "log.retention.ms=1", "-s", "registry.host.name=here"]
    arguments = parse(words)
    assert overrides(arguments) == ["log.retention.ms=1"]
    assert arguments.single["--with"] == "registry"


def test_addresses_are_of_this_machine_unless_they_say_otherwise() -> None:
    def listeners(names: str) -> dict[str, str]:
        return {name: given.get("listeners", "") for name, given in services_of(names, []).texts.items()}

    assert listeners("registry,rest") == {"registry": "", "rest": ""}
    assert listeners("registry=:9001")["registry"] == "http://127.0.0.1:9001"
    assert listeners("registry=9001")["registry"] == "http://127.0.0.1:9001"
    assert listeners("rest=0.0.0.0:9002, registry") == {"rest": "http://0.0.0.0:9002", "registry": ""}
    assert listeners("registry=[::1]:9001")["registry"] == "http://[::1]:9001"


@pytest.mark.parametrize(
    ("names", "assignments", "sentence"),
    [
        ("mirror", [], "--with mirror is not known: write registry, rest, connect, lag or console"),
        ("connect", ["connect.session.timeout.ms=x"], "session.timeout.ms"),
        ("", [], "is not known"),
        ("registry", ["rest.listeners=x"], "is for a service that --with does not name"),
        ("registry", ["registry.schema.compatibility.level=odd"], "schema.compatibility.level"),
        ("registry=host:port", [], "'port' is not a port"),
        ("rest", ["rest.consumer.request.timeout.ms=x"], "consumer.request.timeout.ms"),
    ],
)
def test_mistakes_are_told_before_the_broker_starts(
    names: str, assignments: list[str], sentence: str
) -> None:
    with pytest.raises(Mistake, match=sentence) as mistake:
        services_of(names, assignments)
    assert mistake.value.exit_code == MISUSED


def test_a_setting_for_a_service_that_does_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert serve(["--set", "registry.listeners=x"]) == MISUSED
    assert "add --with" in capsys.readouterr().err
