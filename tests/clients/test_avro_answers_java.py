"""Confluent's Java client is asked again what tests/unit/schemas/avro_answers.json says that it said."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from confluent_java import java_confluent

ANSWERS = Path(__file__).parent.parent / "unit" / "schemas" / "avro_answers.json"
_INCOMPATIBILITY = re.compile(r"Incompatibility\{type:(\w+), location:(.*?), message:(.*?), reader:")

pytestmark = pytest.mark.client


def test_recorded_answers_are_javas() -> None:
    if shutil.which("java") is None:
        pytest.skip("there is no Java")
    try:
        command = java_confluent(Path(__file__).parent / "java" / "avro_answers", "AvroAnswers")
    except RuntimeError as error:
        pytest.skip(str(error))
    recorded = json.loads(ANSWERS.read_text(encoding="utf-8"))
    questions = recorded["texts"] + recorded["pairs"]
    done = subprocess.run(
        command,
        input="".join(f"{json.dumps(each)}\n" for each in questions),
        capture_output=True,
        text=True,
        check=True,
        encoding="utf-8",
    )
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [_shortened(each) for each in answers] == [each["java"] for each in questions]


def _shortened(answer: dict[str, Any]) -> Any:
    if "error" in answer:
        return {"refused": True}
    if "differences" not in answer:
        return answer
    found = [_INCOMPATIBILITY.match(each) for each in answer["differences"]]
    return [list(each.groups()) if each else ["UNEXPECTED_ERROR"] for each in found]
