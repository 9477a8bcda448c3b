"""Datagen: records of an Avro schema, made up; the quickstarts of Confluent's Datagen by name.

    partition {"task.id": 0}     offset {"current.iteration": 500}

Record number n of a task is always the same: it is drawn from (seed, task, n). So a restart goes on
exactly, though nothing is stored but the number.

`arg.properties` beside a type in the schema says what to draw, as in avro-random-generator:
    {"options": [...]}   {"range": {"min": 0, "max": 9}}   {"iteration": {"start": 0, "step": 1}}
    {"length": 5 | {"min": 1, "max": 9}}   {"odds": 0.3}   {"regex": "User_[1-9]"} (classes and counts)
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from moldau.connect.building import batch_of
from moldau.connect.connectors.files.avro_random import RandomAvro
from moldau.connect.connectors.files.datagen_schemas import QUICKSTARTS
from moldau.connect.errors import ConnectError
from moldau.connect.settings import Importance, Setting, SettingType
from moldau.connect.source import Read, Source, SourceContext, SourceOffset, SourcePartition

_BATCH_MAX = 1000
TASK, ITERATION = "task.id", "current.iteration"


class Datagen(Source):
    """See the module."""

    settings: ClassVar[Sequence[Setting]] = (
        Setting("kafka.topic", SettingType.STRING, "Topic to write to", importance=Importance.HIGH),
        Setting(
            "quickstart",
            SettingType.STRING,
            "Name of quickstart to use",
            None,
            Importance.HIGH,
            choices=tuple(sorted(QUICKSTARTS)),
        ),
        Setting("schema.string", SettingType.STRING, "The literal JSON-encoded Avro schema to use", None),
        Setting("schema.filename", SettingType.STRING, "Filename of schema to use", None),
        Setting("schema.keyfield", SettingType.STRING, "Name of field to use as the message key", None),
        Setting("max.interval", SettingType.LONG, "Max interval between messages (ms); 0 or less: none", 500),
        Setting("iterations", SettingType.INT, "Number of messages to send from each task; -1: no end", -1),
        Setting("random.seed", SettingType.LONG, "Of what is drawn", 0),
        Setting("moldau.streams", SettingType.INT, "How many streams tasks can be given", 1),
    )

    def start(self, settings: Mapping[str, Any], context: SourceContext) -> None:
        """ConnectError: the schema is none."""
        super().start(settings, context)
        self._random = RandomAvro(_schema(settings))
        quickstart = QUICKSTARTS.get(settings["quickstart"] or "")
        self._key = settings["schema.keyfield"] or (quickstart.key if quickstart is not None else None)

    def partitions(self) -> Sequence[SourcePartition]:
        """The streams."""
        return [{TASK: each} for each in range(self.config["moldau.streams"])]

    def read(self, partition: SourcePartition, offset: SourceOffset | None) -> Iterator[Read | None]:
        """Records from a number on."""
        number = int(offset[ITERATION]) if offset else 0
        stream = int(partition[TASK])
        last = self.config["iterations"]
        interval = max(self.config["max.interval"], 0) / 1000
        while not self.context.stopping() and (last < 0 or number < last):
            count = 1 if interval else _BATCH_MAX
            if last >= 0:
                count = min(count, last - number)
            if interval:
                pause = self._drawing(stream, number, "pause").random() * interval
                due = time.monotonic() + pause
                while time.monotonic() < due and not self.context.stopping():
                    yield None
            values = [self._value(stream, each) for each in range(number, number + count)]
            number += count
            batch = batch_of(self.config["kafka.topic"], values, self._random.schema, self._key)
            yield Read([batch], {ITERATION: number})
        while not self.context.stopping():
            yield None

    def _value(self, stream: int, number: int) -> Any:
        return self._random.value(self._drawing(stream, number, "value"), number)

    def _drawing(self, stream: int, number: int, what: str) -> random.Random:
        return random.Random(f"{self.config['random.seed']}/{stream}/{number}/{what}")

    def check(self, settings: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        """One schema."""
        try:
            RandomAvro(_schema(settings))
        except ConnectError as wrong:
            return {"quickstart": [str(wrong)]}
        return {}


def _schema(settings: Mapping[str, Any]) -> Any:
    names = ("quickstart", "schema.string", "schema.filename")
    given = [name for name in names if settings[name]]
    if len(given) != 1:
        raise ConnectError(f"give one of {', '.join(names)}")
    if settings["quickstart"]:
        return QUICKSTARTS[settings["quickstart"]].schema
    try:
        if settings["schema.string"]:
            return json.loads(settings["schema.string"])
        with open(settings["schema.filename"], encoding="utf-8") as file:
            return json.load(file)
    except OSError as error:
        raise ConnectError(f"{settings['schema.filename']} cannot be read: {error.strerror}") from error
    except ValueError as wrong:
        raise ConnectError(f"the schema is no JSON: {wrong}") from wrong
