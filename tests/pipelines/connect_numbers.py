"""A sink for Spark's executors: a file a number, in a folder; a number that comes again must be the same."""

from __future__ import annotations

import json
from pathlib import Path

from moldau.connect import BadRecord, ConnectError, Setting, SettingType, Sink, rows


class Numbered(Sink):
    """Fails once after it wrote, where a file says so."""

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
