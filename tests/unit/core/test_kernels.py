"""Every kernel that setup.py builds is known, has a twin beside it, and can be ruled out."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from moldau.common.core import kernels
from moldau.tools import version

ROOT = Path(__file__).parents[3]
TWINS = {
    "moldau.client._columns": "moldau.client.columns",
    "moldau.broker.log.compaction._kernel": "moldau.broker.log.compaction.kernel",
    "moldau.common.protocol._repeat": "moldau.common.protocol.repeat",
    "moldau.common.records._headers": "moldau.common.records.headers",
    "moldau.common.records._usual": "moldau.common.records.usual",
    "moldau.common.records._walk": "moldau.common.records.walk",
    "moldau.schemas.columns._decode": "moldau.schemas.columns.kernel",
    "moldau.schemas.columns._encode": "moldau.schemas.columns.encode_kernel",
}


def test_setup_builds_the_kernels_that_there_are() -> None:
    text = (ROOT / "setup.py").read_text()
    assert tuple(re.findall(r'"(moldau\.[\w.]+)"', text)) == tuple(kernels.KERNELS)
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "src").rglob("*.c")}
    assert sources == {f"src/{name.replace('.', '/')}.c" for name in kernels.KERNELS}
    assert set(TWINS) == set(kernels.KERNELS)


@pytest.mark.parametrize("name", kernels.KERNELS)
def test_a_kernel_and_the_loader_agree_on_its_version(name: str) -> None:
    source = (ROOT / "src" / f"{name.replace('.', '/')}.c").read_text()
    assert re.findall(r"^#define KERNEL_VERSION (\d+)$", source, re.M) == [str(kernels.KERNELS[name])]
    module = kernels.built(name)
    if module is not None:
        assert kernels.KERNELS[name] == module.KERNEL_VERSION


def test_the_environment_rules_kernels_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOLDAU_KERNELS", "python")
    assert [kernels.kernel(name) for name in kernels.KERNELS] == [None] * len(kernels.KERNELS)
    assert kernels.missing() == list(kernels.KERNELS)


def test_what_is_missing_is_known_without_the_extras() -> None:
    """As after `pip install moldau` alone: a kernel's package may need what only an extra installs."""
    program = """
import sys
for extra in ("pyarrow", "fastavro", "pyspark", "orjson", "pandas"):
    sys.modules[extra] = None  # importing it is an ImportError
from moldau.common.core.kernels import built, missing
apart = [name for name in missing() if built(name) is not None]
assert not apart, apart
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100)


def test_a_kernel_of_another_version_is_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As after `git pull`: the source is newer than what was built from it."""
    name = "moldau.common.records._walk"
    if kernels.built(name) is None:
        pytest.skip("there is no C compiler")
    monkeypatch.setitem(kernels.KERNELS, name, kernels.KERNELS[name] + 1)
    assert kernels.built(name) is None
    assert kernels.stale() == [name]
    assert kernels.missing() == []
    [warning] = caplog.records
    assert warning.levelname == "WARNING"
    assert name in warning.getMessage()
    assert "another version of the source" in warning.getMessage()
    assert kernels.REBUILD in warning.getMessage()


def test_a_kernel_from_before_there_were_versions_is_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    name = "moldau.common.records._walk"
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert kernels.built(name) is None
    assert "its interface is 0, not 1" in caplog.text


def test_a_kernel_that_cannot_be_loaded_is_told_apart_from_none(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As one built against another libc, or against modules that have moved."""
    name = "moldau.common.records._walk"
    if kernels.built(name) is None:
        pytest.skip("there is no C compiler")
    monkeypatch.setitem(sys.modules, name, None)
    assert kernels.built(name) is None
    assert "cannot be loaded" in caplog.text
    assert kernels.REBUILD in caplog.text


def test_a_broker_says_at_its_start_which_kernels_it_does_not_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also that of compaction, which only a worker process loads, whose warnings nobody reads."""
    name = "moldau.broker.log.compaction._kernel"
    assert kernels.complaints() == []
    if kernels.built(name) is None:
        pytest.skip("there is no C compiler")
    monkeypatch.setitem(kernels.KERNELS, name, 0)
    [complaint] = kernels.complaints()
    assert name in complaint
    assert kernels.REBUILD in complaint
    monkeypatch.setenv("MOLDAU_KERNELS", "python")
    assert kernels.complaints() == []


def test_appends_go_through_the_twin_of_an_old_kernel() -> None:
    """In a process of its own, as above: no AttributeError in the midst of an append."""
    program = """
import sys
from types import ModuleType
for name in ("records._usual", "records._headers", "protocol._repeat"):
    sys.modules[f"moldau.common.{name}"] = ModuleType(name)  # has none of the functions that there are now
from confluent_kafka import Producer
from moldau.testing import Broker
from moldau.common.records import headers, usual
assert usual._compiled is None and headers._compiled is None
with Broker() as broker:
    broker.create_topic("t")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    offsets = []
    for number in range(100):
        producer.produce("t", b"x", on_delivery=lambda error, one: offsets.append((error, one.offset())))
        producer.flush(30)
    assert offsets == [(None, number) for number in range(100)], offsets[-3:]
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], check=False, timeout=100, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("another version of the source") == 3


def test_the_version_command_names_old_kernels(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "moldau.common.records._walk"
    if kernels.built(name) is None:
        pytest.skip("there is no C compiler")
    monkeypatch.setitem(kernels.KERNELS, name, 0)
    version.version()
    assert f"not used: common.records._walk; build again: {kernels.REBUILD}" in capsys.readouterr().out
    version.version(as_json=True)
    assert json.loads(capsys.readouterr().out)["stale_kernels"] == ["common.records._walk"]


def test_a_broker_works_without_kernels() -> None:
    """In a process of its own, because a kernel is chosen when its module is imported."""
    program = """
from confluent_kafka import Producer
from moldau.common.core import kernels
from moldau.testing import Broker
assert kernels.missing() == list(kernels.KERNELS)
with Broker() as broker:
    broker.create_topic("t")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    offsets = []
    for number in range(300):
        producer.produce("t", b"x", on_delivery=lambda error, one: offsets.append((error, one.offset())))
        producer.flush(30)
    assert offsets == [(None, number) for number in range(300)], offsets[-3:]
"""
    environment = {"MOLDAU_KERNELS": "python", "PATH": ""}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, timeout=100)
