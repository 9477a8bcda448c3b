"""A sink that sends records over HTTP. At least once: after an answer that was lost a request is sent again.

Each request says which records it holds, the same when it is sent again, so that the other side can notice:

    Idempotency-Key: orders-3-812           topic, partition, first offset
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from moldau.connect.batch import Batch
from moldau.connect.connectors.http.calls import Calls, Rejected
from moldau.connect.connectors.http.settings import HTTP_SETTINGS, check_headers, check_login, headers_of
from moldau.connect.connectors.json_rows import as_json, row_values
from moldau.connect.errors import BadRecord
from moldau.connect.settings import REQUIRED, Importance, Setting, SettingType
from moldau.connect.sink import Sink, SinkContext

_SENDING = "Sending"


class HttpSink(Sink):
    """Records as JSON (or texts as they are), one or many a request."""

    settings = (
        Setting(
            "http.api.url",
            SettingType.STRING,
            "Where to send to; ${topic} and ${key} stand for the record's (with ${key} one a request).",
            REQUIRED,
            Importance.HIGH,
            _SENDING,
        ),
        Setting(
            "request.method",
            SettingType.STRING,
            "The method.",
            "POST",
            Importance.HIGH,
            _SENDING,
            choices=("POST", "PUT", "PATCH", "DELETE"),
        ),
        Setting(
            "headers",
            SettingType.STRING,
            "Headers of each request: Name:value|Other:value.",
            None,
            Importance.MEDIUM,
            _SENDING,
            check=check_headers,
        ),
        Setting(
            "batch.max.size",
            SettingType.INT,
            "At most so many records a request; 1: a request a record.",
            1,
            Importance.MEDIUM,
            _SENDING,
        ),
        Setting(
            "batch.json.as.array",
            SettingType.BOOLEAN,
            "Send the records of a request as a JSON array, also a single one.",
            False,
            Importance.MEDIUM,
            _SENDING,
        ),
        Setting(
            "batch.separator",
            SettingType.STRING,
            "Between records that are no JSON array.",
            "\n",
            Importance.LOW,
            _SENDING,
        ),
        Setting(
            "request.body.format",
            SettingType.STRING,
            "json: values as JSON. string: texts as they are, everything else as JSON.",
            "json",
            Importance.MEDIUM,
            _SENDING,
            choices=("json", "string"),
        ),
        Setting(
            "behavior.on.null.values",
            SettingType.STRING,
            "ignore: a tombstone sends nothing. delete: it sends DELETE. fail: it is a bad record.",
            "ignore",
            Importance.MEDIUM,
            _SENDING,
            choices=("ignore", "delete", "fail"),
        ),
        *HTTP_SETTINGS,
    )

    def start(self, settings: Mapping[str, Any], context: SinkContext) -> None:
        """Connects with the first record. ConnectError."""
        super().start(settings, context)
        self._calls = Calls(settings, context.wait, time.monotonic)
        self._headers = headers_of(settings["headers"])
        self._json = settings["request.body.format"] == "json"
        self._array: bool = settings["batch.json.as.array"]
        self._url: str = settings["http.api.url"]
        self._size = 1 if "${key}" in self._url else max(1, settings["batch.max.size"])

    def write(self, batch: Batch, number: int) -> None:
        """Send; returns when all is answered."""
        for rows in self._requests(batch):
            self._send(batch, rows)

    def check(self, settings: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        """Contradictions."""
        problems = check_login(settings)
        if not str(settings["http.api.url"]).startswith(("http://", "https://")):
            problems["http.api.url"] = ["an address begins with http:// or https://"]
        if "${key}" in str(settings["http.api.url"]) and settings["batch.max.size"] > 1:
            problems["batch.max.size"] = [
                "records of one request have one address: leave out ${key}, or set 1"
            ]
        return problems

    def stop(self) -> None:
        """End the connections."""
        if hasattr(self, "_calls"):
            self._calls.close()

    def _requests(self, batch: Batch) -> Iterator[range]:
        """Rows of one request each: consecutive, all with a value or all without."""
        values = batch.value.values
        gone = (
            [value is None for value in values] if isinstance(values, list) else values.is_null().to_pylist()
        )
        first = 0
        for row in range(1, len(gone) + 1):
            if row == len(gone) or row - first == self._size or gone[row] or gone[first]:
                yield range(first, row)
                first = row

    def _send(self, batch: Batch, rows: range) -> None:
        part = batch.take(rows)
        values = row_values(part.value)
        tombstone = values[0] is None
        if tombstone and self.config["behavior.on.null.values"] == "ignore":
            return
        try:
            if tombstone and self.config["behavior.on.null.values"] == "fail":
                raise BadRecord("the value is null, and behavior.on.null.values is fail")
            method = "DELETE" if tombstone else self.config["request.method"].upper()
            body = None if tombstone else self._body(values)
            self._calls.send(method, self._address(part), body, self._heads(part))
        except (Rejected, BadRecord) as problem:
            if len(rows) == 1:
                self.context.bad_record(batch, rows[0], BadRecord(str(problem), rows[0]))
                return
            for row in rows:  # which one is it?
                self._send(batch, range(row, row + 1))

    def _body(self, values: Sequence[Any]) -> bytes:
        documents = [self._document(value) for value in values]
        if self._array:
            return b"[" + b",".join(documents) + b"]"
        separator: str = self.config["batch.separator"]
        return separator.encode().join(documents)

    def _document(self, value: Any) -> bytes:
        if not self._json and isinstance(value, str):
            return value.encode()
        if not self._json and isinstance(value, bytes):
            return value
        return as_json(value)

    def _heads(self, part: Batch) -> dict[str, str]:
        origin, offsets = part.origin, part.offsets
        assert origin is not None
        assert offsets is not None
        key = f"{origin.topic}-{origin.partition}-{offsets[0].as_py()}"
        kind = "application/json" if self._json else "text/plain; charset=utf-8"
        return {"Content-Type": kind, "Idempotency-Key": key, **self._headers}

    def _address(self, part: Batch) -> str:
        url = self._url.replace("${topic}", _quoted(part.topic))
        if "${key}" not in url:
            return url
        key = row_values(part.key)[0]
        if key is None:
            raise BadRecord("the record has no key, and http.api.url names ${key}")
        return url.replace("${key}", _quoted(key if isinstance(key, str) else as_json(key).decode()))


def _quoted(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")
