"""What Confluent's Java says of Protobuf schemas, and of values, is still what was recorded for our tests.

After a change of the cases: MOLDAU_RECORD=1 writes the answers anew.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_java import java_confluent

UNIT = Path(__file__).parents[1] / "unit" / "schemas"


@pytest.fixture(autouse=True)
def cases_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(UNIT)])


def answers_of(main: str, folder: str, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if shutil.which("javac") is None:
        pytest.skip("there is no Java here")
    try:
        command = java_confluent(Path(__file__).with_name("java") / folder, main)
    except RuntimeError as missing:
        pytest.skip(str(missing))
    asked = "".join(json.dumps(question) + "\n" for question in questions)
    done = subprocess.run(command, input=asked.encode(), stdout=subprocess.PIPE, check=True, timeout=110)
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


def kept(file: Path, answers: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Write the answers where that is asked for; return what is recorded."""
    if os.environ.get("MOLDAU_RECORD"):
        text = json.dumps(answers, indent=1, ensure_ascii=False, sort_keys=True)
        file.write_text(text + "\n", encoding="utf-8")
    recorded: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return recorded


def test_schemas_are_what_confluents_java_makes_of_them() -> None:
    import protobuf_cases as cases

    names = [
        *(f"print {name}" for name in cases.PRINTS),
        *(f"compare {name}" for name in cases.pairs()),
    ]
    found = answers_of("ProtobufAnswers", "protobuf_answers", cases.questions())
    answers = dict(zip(names, found, strict=True))
    assert answers == kept(cases.ANSWERS, answers)


def test_values_are_what_confluents_java_writes() -> None:
    import value_cases as cases

    answers = dict(
        zip(cases.VALUES, answers_of("ValueAnswers", "value_answers", cases.questions()), strict=True)
    )
    assert answers == kept(cases.ANSWERS, answers)
