"""A source that reads an HTTP interface in pages. `http.offset.mode`:

    SIMPLE_INCREMENTING   ${offset} is a number that grows by one with each record: ?from=${offset}
    CHAINING              ${offset} is taken from the last record (http.offset.json.pointer), e.g. its id
    CURSOR_PAGINATION     the answer names the next page (http.next.page.json.pointer): a cursor or an address
    SNAPSHOT_PAGINATION   every request is the whole, again and again

Reading goes on where the last committed records end. The last page of a cursor has no next one: it is
asked for again, and of
it the records after those that were `taken`. Entities (`entity.names`) are read independently.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import orjson
import pyarrow as pa

from moldau.connect.batch import Batch, Column
from moldau.connect.connectors.http.calls import Calls, Rejected, shown
from moldau.connect.connectors.http.settings import HTTP_SETTINGS, check_headers, check_login, headers_of
from moldau.connect.connectors.json_pointer import NoSuchPlace, at, check_pointer, steps_of
from moldau.connect.errors import ConnectError
from moldau.connect.settings import REQUIRED, Importance, Setting, SettingType
from moldau.connect.source import Read, Source, SourceContext, SourceOffset, SourcePartition

_READING = "Reading"
SIMPLE, CHAINING, CURSOR, SNAPSHOT = (
    "SIMPLE_INCREMENTING",
    "CHAINING",
    "CURSOR_PAGINATION",
    "SNAPSHOT_PAGINATION",
)


class HttpSource(Source):
    """Answers in JSON as records without a schema."""

    settings = (
        Setting(
            "url",
            SettingType.STRING,
            "Where to read: ${entityName} and ${offset} stand for what their names say.",
            REQUIRED,
            Importance.HIGH,
            _READING,
        ),
        Setting(
            "topic.name.pattern",
            SettingType.STRING,
            "The topic; ${entityName} stands for the entity.",
            "${entityName}",
            Importance.HIGH,
            _READING,
        ),
        Setting(
            "entity.names",
            SettingType.LIST,
            "What to read, each with an offset of its own.",
            ["default"],
            Importance.HIGH,
            _READING,
        ),
        Setting(
            "http.request.method",
            SettingType.STRING,
            "The method.",
            "GET",
            Importance.MEDIUM,
            _READING,
            choices=("GET", "POST"),
        ),
        Setting(
            "http.request.headers",
            SettingType.STRING,
            "Name:value|Other:value.",
            None,
            Importance.MEDIUM,
            _READING,
            check=check_headers,
        ),
        Setting(
            "http.request.parameters",
            SettingType.STRING,
            "The query: since=${offset}&limit=100.",
            None,
            Importance.MEDIUM,
            _READING,
        ),
        Setting("http.request.body", SettingType.STRING, "With POST.", None, Importance.MEDIUM, _READING),
        Setting(
            "http.offset.mode",
            SettingType.STRING,
            "How reading goes on; see the connector's page.",
            SIMPLE,
            Importance.HIGH,
            _READING,
            choices=(SIMPLE, CHAINING, CURSOR, SNAPSHOT),
        ),
        Setting(
            "http.initial.offset",
            SettingType.STRING,
            "${offset} of the first request.",
            "",
            Importance.MEDIUM,
            _READING,
        ),
        Setting(
            "http.response.data.json.pointer",
            SettingType.STRING,
            "Where in an answer the records are (a list, or one record), as /data/items.",
            "",
            Importance.HIGH,
            _READING,
            check=check_pointer,
        ),
        Setting(
            "http.offset.json.pointer",
            SettingType.STRING,
            "With CHAINING: where in a record the next ${offset} is.",
            None,
            Importance.MEDIUM,
            _READING,
            check=check_pointer,
        ),
        Setting(
            "http.next.page.json.pointer",
            SettingType.STRING,
            "With CURSOR_PAGINATION: where in an answer the next page's cursor or address is.",
            None,
            Importance.MEDIUM,
            _READING,
            check=check_pointer,
        ),
        Setting(
            "key.json.pointer",
            SettingType.STRING,
            "Where in a record its key is; none: no key.",
            None,
            Importance.MEDIUM,
            _READING,
            check=check_pointer,
        ),
        Setting(
            "request.interval.ms",
            SettingType.LONG,
            "How long to wait after an answer without records.",
            15_000,
            Importance.MEDIUM,
            _READING,
        ),
        *HTTP_SETTINGS,
    )

    def start(self, settings: Mapping[str, Any], context: SourceContext) -> None:
        """Connects with the first request. ConnectError."""
        super().start(settings, context)
        self._calls = Calls(settings, context.wait, time.monotonic)
        self._headers = headers_of(settings["http.request.headers"])
        self._mode = settings["http.offset.mode"].upper()
        self._data = steps_of(settings["http.response.data.json.pointer"])
        self._pointers = {
            name: None if settings[name] is None else steps_of(settings[name])
            for name in ("http.offset.json.pointer", "http.next.page.json.pointer", "key.json.pointer")
        }

    def partitions(self) -> Sequence[SourcePartition]:
        """The entities."""
        return [{"entity": name} for name in self.config["entity.names"]]

    def read(self, partition: SourcePartition, offset: SourceOffset | None) -> Iterator[Read | None]:
        """Page after page. Retriable, ConnectError."""
        at_offset = str(offset["offset"]) if offset else self.config["http.initial.offset"]
        taken = int(offset.get("taken", 0)) if offset else 0
        while not self.context.stopping():
            answer = self._ask(partition["entity"], at_offset)
            rows = self._rows(answer)
            following = self._following(answer, rows, at_offset)
            fresh = rows[taken:]
            stays = following == at_offset
            taken = len(rows) if stays and self._mode == CURSOR else 0
            if fresh or not stays:
                reached = {"offset": following, "taken": taken} if taken else {"offset": following}
                yield Read([self._batch(partition["entity"], fresh)] if fresh else [], reached)
            at_offset = following
            if stays or not fresh:
                again_at = time.monotonic() + self.config["request.interval.ms"] / 1000
                yield None  # and not a wait: other partitions of the task are read meanwhile
                while time.monotonic() < again_at and not self.context.stopping():
                    yield None

    def check(self, settings: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        """Contradictions."""
        problems = check_login(settings)
        mode = settings["http.offset.mode"].upper()
        for wanted, name in ((CHAINING, "http.offset.json.pointer"), (CURSOR, "http.next.page.json.pointer")):
            if mode == wanted and settings[name] is None:
                problems[name] = [f"http.offset.mode={mode} needs {name}"]
        start = settings["http.initial.offset"]
        if mode == SIMPLE and start and not start.isdigit():
            problems["http.initial.offset"] = [f"http.offset.mode={SIMPLE} counts records: write a number"]
        return problems

    def check_offsets(self, offsets: Mapping[str, Any]) -> None:
        """An offset is {"offset": text}, with a cursor also how many records of the page are taken."""
        if not {"offset"} <= set(offsets) <= {"offset", "taken"}:
            raise ConnectError('an offset of this connector is {"offset": "…"}')

    def stop(self) -> None:
        """End the connections."""
        if hasattr(self, "_calls"):
            self._calls.close()

    def _ask(self, entity: str, offset: str) -> Any:
        def filled(text: str | None) -> str:
            return (text or "").replace("${entityName}", entity).replace("${offset}", offset)

        url = filled(self.config["url"])
        if self._mode == CURSOR and offset.startswith(("http://", "https://")):
            if _origin(offset) != _origin(url):
                raise ConnectError(
                    f"http.next.page.json.pointer: the answer names a page at {_origin(offset)}, which is "
                    f"not where url is ({_origin(url)}): the login is not sent there"
                )
            url = offset  # the answer named an address
        parts = filled(self.config["http.request.parameters"]).split("&")
        pairs = (part.partition("=") for part in parts if part)
        # The first page has no cursor.
        params = {name: value for name, _, value in pairs if value or self._mode != CURSOR}
        body = self.config["http.request.body"]
        try:
            answer = self._calls.send(
                self.config["http.request.method"].upper(),
                url,
                None if body is None else filled(body).encode(),
                {"Accept": "application/json", **self._headers},
                params if url != offset else None,
            )
        except Rejected as problem:
            raise ConnectError(str(problem)) from None
        try:
            return orjson.loads(answer.body) if answer.body else None
        except ValueError as problem:
            raise ConnectError(f"{shown(url)}: the answer is no JSON: {problem}") from None

    def _rows(self, answer: Any) -> list[Any]:
        if answer is None:
            return []
        try:
            data = at(answer, self._data)
        except NoSuchPlace as problem:
            raise ConnectError(f"http.response.data.json.pointer: {problem}") from None
        if data is None:
            return []
        return data if isinstance(data, list) else [data]

    def _following(self, answer: Any, rows: list[Any], offset: str) -> str:
        match self._mode:
            case "SIMPLE_INCREMENTING":
                return str(int(offset or 0) + len(rows)) if rows else offset
            case "CHAINING":
                return self._text("http.offset.json.pointer", rows[-1]) or offset if rows else offset
            case "CURSOR_PAGINATION":
                try:
                    return self._text("http.next.page.json.pointer", answer) or offset
                except ConnectError:
                    return offset  # the last page names no next one
        return offset

    def _text(self, name: str, document: Any) -> str:
        steps = self._pointers[name]
        assert steps is not None
        try:
            value = at(document, steps)
        except NoSuchPlace as problem:
            raise ConnectError(f"{name}: {problem}") from None
        if value is None:
            return ""
        return value if isinstance(value, str) else orjson.dumps(value).decode()

    def _batch(self, entity: str, rows: list[Any]) -> Batch:
        keys: list[Any] = [None] * len(rows)
        if self._pointers["key.json.pointer"] is not None:
            keys = [self._text("key.json.pointer", row) or None for row in rows]
        topic = self.config["topic.name.pattern"].replace("${entityName}", entity)
        return Batch(topic, Column(None, keys), Column(None, rows), pa.nulls(len(rows), pa.int64()))


def _origin(url: str) -> str:
    """Scheme, host and port, without a user."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}".lower()
