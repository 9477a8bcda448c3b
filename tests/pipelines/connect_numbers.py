"""A sink for Spark's executors: a file a number, in a folder; a number that comes again must be the same."""

from __future__ import annotations

import json
import os
from pathlib import Path

from moldau.connect import BadRecord, ConnectError, Read, Setting, SettingType, Sink, Source, batch_of, rows


class Numbered(Sink):
    """Fails once after it wrote, where a file says so."""

    gains_on_spark = True
    settings = (
        Setting("folder", SettingType.STRING, "Where to."),
        Setting("fail", SettingType.STRING, "A file; while it is there, the first one fails.", None),
    )

    def write(self, batch, number):
        values = [row.value for row in rows(batch)]
        bad = [row for row, value in enumerate(values) if value.get("bad") == "put"]
        if bad:
            raise BadRecord("refused", bad[0])
        topic, partition = batch.origin
        file = Path(self.config["folder"], f"{topic}-{partition}-{number}.json")
        if file.exists() and json.loads(file.read_text()) != values:
            Path(self.config["folder"], "differs").write_text(f"{file}: {values}")
        file.write_text(json.dumps(values))
        if self.config["fail"] and Path(self.config["fail"]).exists():
            Path(self.config["fail"]).unlink()
            raise ConnectError("the other system has gone")


class AtHome(Numbered):
    """Refuses to run in another process than the one that is named."""

    settings = (*Numbered.settings, Setting("pid", SettingType.STRING, "Of the process."))

    def start(self, settings, context):
        super().start(settings, context)
        if int(settings["pid"]) != os.getpid():
            raise ConnectError("it has what it needs at home alone")


class Counting(Source):
    """Numbers below what a file says, for each name; fails once, where a file says so."""

    settings = (
        Setting("topic", SettingType.STRING, "Where to."),
        Setting("names", SettingType.LIST, "Its partitions."),
        Setting("count", SettingType.STRING, "A file."),
        Setting("fail", SettingType.STRING, "A file; while it is there, the first one fails.", None),
    )

    def partitions(self):
        return [{"name": each} for each in self.config["names"]]

    def read(self, partition, offset):
        at = 0 if offset is None else offset["next"]
        while True:
            if at >= int(Path(self.config["count"]).read_text()):
                yield None
                continue
            fail = self.config["fail"]
            if fail and at == 30 and Path(fail).exists():
                Path(fail).unlink()
                raise ConnectError("the other system has gone")
            values = [f"{partition['name']}{n}" for n in range(at, at + 10)]
            at += 10
            yield Read([batch_of(self.config["topic"], values)], {"next": at})
