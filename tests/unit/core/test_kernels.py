"""Every kernel that setup.py builds is known, has a twin beside it, and can be ruled out."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.common.core import kernels

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
    assert tuple(re.findall(r'"(moldau\.[\w.]+)"', text)) == kernels.KERNELS
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "src").rglob("*.c")}
    assert sources == {f"src/{name.replace('.', '/')}.c" for name in kernels.KERNELS}
    assert set(TWINS) == set(kernels.KERNELS)


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
