"""The image's entry point and compose files, without a container engine."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from moldau.common.settings.sources import from_environment, from_texts

ROOT = Path(__file__).parents[2]
ENTRYPOINT = ROOT / "docker" / "entrypoint.sh"
COMPOSE = sorted((ROOT / "docker").glob("compose*.yaml"))
NOT_SETTINGS = {"MOLDAU_BOOTSTRAP", "MOLDAU_HEALTH_URL"}
"""Variables of the commands and of the health check."""


def entered(tmp_path: Path, words: list[str], **variables: str) -> list[str]:
    """What the entry point runs: the words, then the KAFKA_* variables, as the program sees them."""
    programs = tmp_path / "bin"
    programs.mkdir(exist_ok=True)
    moldau = programs / "moldau"
    moldau.write_text('#!/bin/sh\nprintf "%s\\n" moldau "$@"; env | grep ^KAFKA_ | sort\n')
    moldau.chmod(0o755)
    path = f"{programs}{os.pathsep}/usr/bin{os.pathsep}/bin"
    done = subprocess.run(
        ["/bin/sh", str(ENTRYPOINT), *words],
        env={"PATH": path, **variables},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("words", [[], ["serve"]])
def test_a_broker_is_reached_from_outside_by_default(tmp_path: Path, words: list[str]) -> None:
    assert entered(tmp_path, words) == [
        "moldau",
        "serve",
        "KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9092",
        "KAFKA_LISTENERS=PLAINTEXT://0.0.0.0:9092",
        "KAFKA_LOG_DIRS=/var/lib/kafka/data",
    ]


def test_what_the_user_sets_stays(tmp_path: Path) -> None:
    ran = entered(
        tmp_path,
        ["serve", "--set", "num.partitions=3"],
        KAFKA_LISTENERS="PLAINTEXT://0.0.0.0:1234",
        KAFKA_LOG_DIRS="/elsewhere",
    )
    assert ran == [
        "moldau",
        "serve",
        "--set",
        "num.partitions=3",
        "KAFKA_LISTENERS=PLAINTEXT://0.0.0.0:1234",
        "KAFKA_LOG_DIRS=/elsewhere",
    ]


def test_other_words_are_commands_or_programs(tmp_path: Path) -> None:
    assert entered(tmp_path, ["topics", "list"]) == ["moldau", "topics", "list"]
    assert entered(tmp_path, ["echo", "a b"]) == ["a b"]


def test_a_formatted_folder_is_not_formatted_again(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("")
    ran = entered(tmp_path, ["serve"], CLUSTER_ID="4L6g3nShT-eMCtK--X86sw", KAFKA_LOG_DIRS=str(tmp_path))
    assert ran[:2] == ["moldau", "serve"]


@pytest.mark.parametrize("file", COMPOSE, ids=lambda file: file.name)
def test_compose_files_have_settings_that_a_broker_takes(file: Path) -> None:
    services: dict[str, Any] = yaml.safe_load(file.read_text())["services"]
    ours = {name: each for name, each in services.items() if each["image"] == "moldau"}
    assert ours
    for each in ours.values():
        variables = {
            name: str(value)
            for name, value in each.get("environment", {}).items()
            if name not in NOT_SETTINGS
        }
        assert from_texts(from_environment(variables)).warnings == ()
        assert all(port.startswith("127.0.0.1:") for port in each.get("ports", ()))


def test_what_the_image_copies_is_there() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    names = [name for each in copied for name in each.split()]
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert names
    assert all((ROOT / name).exists() for name in names)
    assert {name.split("/")[0] for name in names} <= let_in
