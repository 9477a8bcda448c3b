"""Records as documents of OpenSearch or Elasticsearch. The settings have the names of Confluent's sink.

A document's id is the record's key, and its version the record's offset; with `key.ignore` the id is
`topic+partition+offset`. Both come out the same when records are written again: what is in the index is
then as
if each had been written once. (With `write.method=UPSERT` there is no version, and an older value may be
seen until the newer one is written again.)
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from moldau.connect.batch import Batch
from moldau.connect.connectors.http.calls import Calls, Rejected
from moldau.connect.connectors.http.settings import HTTP_SETTINGS
from moldau.connect.connectors.json_rows import as_json, row_values
from moldau.connect.connectors.opensearch.bulk import Document, Method, refusals_of
from moldau.connect.connectors.opensearch.mappings import mapping_of
from moldau.connect.errors import BadRecord, ConnectError, Retriable
from moldau.connect.schema import Schema, Type
from moldau.connect.settings import REQUIRED, Importance, Setting, SettingType
from moldau.connect.sink import Sink, SinkContext

_CONNECTION, _WRITING = "Connection", "Writing"
_ID_BYTES_MAX = 512
_TAKEN_FROM_HTTP = (
    "retry.on.status.codes",
    "requests.per.second",
    "http.request.timeout.ms",
    "http.connect.timeout.ms",
    "http.response.bytes.max",
    "http.proxy",
    "https.ssl.verify",
    "https.ssl.ca.location",
)


class OpenSearchSink(Sink):
    """An index a topic, a document a record."""

    gains_on_spark = True
    settings = (
        Setting(
            "connection.url",
            SettingType.LIST,
            "One or more addresses, as http://localhost:9200; the next is tried when one does not answer.",
            REQUIRED,
            Importance.HIGH,
            _CONNECTION,
        ),
        Setting(
            "connection.username", SettingType.STRING, "With a login.", None, Importance.MEDIUM, _CONNECTION
        ),
        Setting(
            "connection.password", SettingType.PASSWORD, "With a login.", None, Importance.MEDIUM, _CONNECTION
        ),
        Setting(
            "index",
            SettingType.STRING,
            "The index; ${topic} stands for the topic. Its letters are made small.",
            "${topic}",
            Importance.HIGH,
            _WRITING,
        ),
        Setting(
            "key.ignore",
            SettingType.BOOLEAN,
            "Each record is a document of its own. Off: a record replaces the document of its key.",
            False,
            Importance.HIGH,
            _WRITING,
        ),
        Setting(
            "write.method",
            SettingType.STRING,
            "INSERT: a record is the whole document. UPSERT: its fields change the document that is there.",
            "INSERT",
            Importance.MEDIUM,
            _WRITING,
            choices=("INSERT", "UPSERT"),
        ),
        Setting(
            "behavior.on.null.values",
            SettingType.STRING,
            "What a tombstone does: ignore, delete (the document of its key), fail.",
            "fail",
            Importance.MEDIUM,
            _WRITING,
            choices=("ignore", "delete", "fail"),
        ),
        Setting(
            "behavior.on.malformed.documents",
            SettingType.STRING,
            "A document that the index refuses: fail (errors.tolerance decides), warn or ignore (left out).",
            "fail",
            Importance.MEDIUM,
            _WRITING,
            choices=("ignore", "warn", "fail"),
        ),
        Setting(
            "schema.ignore",
            SettingType.BOOLEAN,
            "Let the server guess types. Off: a new index gets its mapping from the records' schema.",
            False,
            Importance.LOW,
            _WRITING,
        ),
        Setting("batch.size", SettingType.INT, "Documents a request.", 2000, Importance.MEDIUM, _WRITING),
        Setting("bulk.size.bytes", SettingType.LONG, "Bytes a request.", 5 << 20, Importance.LOW, _WRITING),
        *(row for row in HTTP_SETTINGS if row.name in _TAKEN_FROM_HTTP),
        Setting(
            "type.name",
            SettingType.STRING,
            "The documents' type.",
            None,
            Importance.LOW,
            _WRITING,
            without_effect="servers have had no types since version 7",
        ),
        Setting(
            "max.in.flight.requests",
            SettingType.INT,
            "Requests at a time.",
            1,
            Importance.LOW,
            _WRITING,
            without_effect="a task sends one request at a time; more tasks send more",
        ),
    )

    def start(self, settings: Mapping[str, Any], context: SinkContext) -> None:
        """Connects with the first record. ConnectError."""
        super().start(settings, context)
        login = "BASIC" if settings["connection.username"] else "NONE"
        self._calls = Calls(
            {**settings, "auth.type": login, "connection.user": settings["connection.username"]},
            context.wait,
            time.monotonic,
        )
        self._addresses = [address.rstrip("/") for address in settings["connection.url"]]
        self._method = Method(settings["write.method"].upper())
        self._made: set[str] = set()

    def write(self, batch: Batch, number: int) -> None:
        """Send; returns when all documents are answered."""
        index = str(self.config["index"]).replace("${topic}", batch.topic).lower()
        if not self.config["schema.ignore"]:
            self._make(index, batch.value.schema)
        for documents, body in self._requests(batch, index):
            self._send(batch, index, documents, body)

    def check(self, settings: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        """Contradictions."""
        problems = {}
        wrong = [url for url in settings["connection.url"] if not url.startswith(("http://", "https://"))]
        if wrong:
            problems["connection.url"] = [f"{wrong[0]} does not begin with http:// or https://"]
        if bool(settings["connection.username"]) != bool(settings["connection.password"]):
            problems["connection.password"] = ["connection.username and connection.password belong together"]
        if settings["key.ignore"] and settings["behavior.on.null.values"].lower() == "delete":
            problems["behavior.on.null.values"] = ["with key.ignore=true nothing can be deleted by its key"]
        return problems

    def stop(self) -> None:
        """End the connections."""
        if hasattr(self, "_calls"):
            self._calls.close()

    def _requests(self, batch: Batch, index: str) -> Iterator[tuple[list[Document], bytes]]:
        documents: list[Document] = []
        parts: list[bytes] = []
        size = 0
        for document in self._documents(batch):
            lines = document.lines(index, self._method)
            full = (
                len(documents) >= self.config["batch.size"]
                or size + len(lines) > self.config["bulk.size.bytes"]
            )
            if documents and full:
                yield documents, b"".join(parts)
                documents, parts, size = [], [], 0
            documents.append(document)
            parts.append(lines)
            size += len(lines)
        if documents:
            yield documents, b"".join(parts)

    def _documents(self, batch: Batch) -> Iterator[Document]:
        assert batch.origin is not None
        assert batch.offsets is not None
        keys, values, offsets = row_values(batch.key), row_values(batch.value), batch.offsets.to_pylist()
        on_null = self.config["behavior.on.null.values"].lower()
        for row, (key, value, offset) in enumerate(zip(keys, values, offsets, strict=True)):
            if value is None and on_null == "ignore":
                continue
            try:
                if value is None and on_null == "fail":
                    raise BadRecord("the value is null, and behavior.on.null.values is fail", row)
                if self.config["key.ignore"]:
                    name, version = f"{batch.origin.topic}+{batch.origin.partition}+{offset}", None
                else:
                    name, version = _id_of(key), offset
                yield Document(row, name, None if value is None else _body_of(value), version)
            except BadRecord as problem:
                self.context.bad_record(batch, row, problem)

    def _send(self, batch: Batch, index: str, documents: list[Document], body: bytes) -> None:
        try:
            answer = self._ask("POST", "/_bulk", body, "application/x-ndjson")
        except Rejected as problem:
            if len(documents) == 1:
                self._refused(batch, documents[0].row, str(problem))
                return
            for half in (documents[: len(documents) // 2], documents[len(documents) // 2 :]):
                lines = b"".join(document.lines(index, self._method) for document in half)
                self._send(batch, index, half, lines)
            return
        try:
            refusals = refusals_of(documents, answer)
        except ValueError as problem:
            raise ConnectError(
                f"{self._addresses[0]}: {problem}; is it OpenSearch or Elasticsearch?"
            ) from None
        busy = [refusal for refusal in refusals if refusal.may_succeed_later]
        if busy:
            raise Retriable(f"{len(busy)} of {len(documents)} documents were not taken: {busy[0].reason}")
        for refusal in refusals:
            self._refused(batch, refusal.document.row, refusal.reason)

    def _refused(self, batch: Batch, row: int, reason: str) -> None:
        if self.config["behavior.on.malformed.documents"].lower() == "fail":
            self.context.bad_record(batch, row, BadRecord(f"the index refuses the document: {reason}", row))

    def _make(self, index: str, schema: Schema | None) -> None:
        """An index that does not exist, with the schema's mapping."""
        if index in self._made or schema is None or schema.type is not Type.STRUCT:
            return
        try:
            self._ask("PUT", f"/{index}", as_json({"mappings": mapping_of(schema)}))
        except Rejected as problem:
            if "resource_already_exists_exception" not in str(problem):
                raise ConnectError(f"the index {index} cannot be made: {problem}") from None
        self._made.add(index)

    def _ask(self, method: str, path: str, body: bytes, kind: str = "application/json") -> Mapping[str, Any]:
        """Of the first address that answers. Rejected, Retriable, ConnectError."""
        for tried in range(len(self._addresses)):
            try:
                answer = self._calls.send(method, self._addresses[0] + path, body, {"Content-Type": kind})
                break
            except Retriable:
                self._addresses.append(self._addresses.pop(0))
                if tried == len(self._addresses) - 1:
                    raise
        try:
            parsed = orjson.loads(answer.body)
        except ValueError:
            parsed = None
        if not isinstance(parsed, dict):
            raise ConnectError(f"{self._addresses[0]}{path}: the answer is no JSON object")
        return parsed


def _id_of(key: Any) -> str:
    """A record's key as a document's id. BadRecord."""
    if key is None:
        raise BadRecord("the record has no key: set key.ignore=true, or make one (ValueToKey)")
    if isinstance(key, (dict, list)):
        raise BadRecord("the key has fields: ExtractField$Key makes one value of it")
    text = key.decode("utf-8", "surrogateescape") if isinstance(key, bytes) else _text(key)
    if not text or len(text.encode("utf-8", "surrogateescape")) > _ID_BYTES_MAX:
        raise BadRecord(f"a key as an id has 1 to {_ID_BYTES_MAX} bytes")
    return text


def _text(key: Any) -> str:
    return key if isinstance(key, str) else as_json(key).decode().strip('"')


def _body_of(value: Any) -> bytes:
    if not isinstance(value, dict):
        raise BadRecord("the value is no record: a document needs fields (HoistField makes one)")
    return as_json(value)
