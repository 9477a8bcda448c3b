"""What an extra installs is imported somewhere in the source: nobody is refused for want of the rest."""

import re
import tomllib

import pytest

MODULES = {
    "confluent-kafka": "confluent_kafka",
    "googleapis-common-protos": "google",
    "protobuf": "google.protobuf",
    "uvloop": "uvloop",
    "google-re2": "re2",
}
BESIDE = {"pandas": "Spark's own Arrow functions need it", "httptools": "named to uvicorn as text"}


@pytest.mark.parametrize(
    "extra", ["spark", "cluster", "sqlalchemy", "security", "schemas", "registry", "rest", "console"]
)
def test_packages_of_an_extra_are_imported(extra: str, pytestconfig: pytest.Config) -> None:
    project = tomllib.loads((pytestconfig.rootpath / "pyproject.toml").read_text())["project"]
    source = "\n".join(path.read_text() for path in (pytestconfig.rootpath / "src").rglob("*.py"))
    for requirement in project["optional-dependencies"][extra]:
        found = re.match(r"[A-Za-z0-9-]+", requirement)
        assert found is not None
        if found[0] == "moldau" or found[0] in BESIDE:
            continue
        module = MODULES.get(found[0], found[0])
        assert re.search(rf"^\s*(import|from) {re.escape(module)}\b", source, re.MULTILINE), requirement
