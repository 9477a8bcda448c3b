"""What Confluent's Java says of Protobuf schemas is still what was recorded, and ours is tested against.

After a change of the cases: MOLDAU_RECORD=1 writes the answers anew.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_java import java_confluent

UNIT = Path(__file__).parents[1] / "unit" / "schemas"


def test_recorded_answers_are_those_of_confluents_java(monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("javac") is None:
        pytest.skip("there is no Java here")
    monkeypatch.setattr(sys, "path", [*sys.path, str(UNIT)])
    import protobuf_cases as cases

    try:
        command = java_confluent(Path(__file__).with_name("java") / "protobuf_answers", "ProtobufAnswers")
    except RuntimeError as missing:
        pytest.skip(str(missing))
    asked = "".join(json.dumps(question) + "\n" for question in cases.questions())
    done = subprocess.run(command, input=asked.encode(), stdout=subprocess.PIPE, check=True, timeout=110)
    names = [
        *(f"print {name}" for name in cases.PRINTS),
        *(f"compare {name}" for name in cases.pairs()),
    ]
    answers = dict(zip(names, map(json.loads, done.stdout.decode().splitlines()), strict=True))
    if os.environ.get("MOLDAU_RECORD"):
        text = json.dumps(answers, indent=1, ensure_ascii=False, sort_keys=True)
        cases.ANSWERS.write_text(text + "\n", encoding="utf-8")
    assert answers == cases.recorded()
