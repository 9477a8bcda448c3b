"""A schema registry that keeps what it is given, for tests of its clients: no checks, no deletion."""

from __future__ import annotations

import json
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


class FakeRegistry:
    """Answers on a port of its own until it is closed; counts the requests by path."""

    def __init__(self) -> None:
        self.schemas: list[dict[str, Any]] = []
        """By id, from 1."""
        self.subjects: dict[str, list[int]] = {}
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.refusal: tuple[int, dict[str, Any]] | None = None
        """What every request is answered with, if set."""
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(None)

            def do_POST(self) -> None:
                self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def _answer(self, body: dict[str, Any] | None) -> None:
                registry.requests.append(f"{self.command} {self.path}")
                registry.headers.append(dict(self.headers))
                status, answer = registry.refusal or registry.answer(urlsplit(self.path).path, body)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def add(self, subject: str, schema: str, schema_type: str = "AVRO", references: Any = ()) -> int:
        """Register a schema; return its id."""
        body = {"schema": schema, "schemaType": schema_type, "references": list(references)}
        if body not in self.schemas:
            self.schemas.append(body)
        number = self.schemas.index(body) + 1
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def answer(self, path: str, body: dict[str, Any] | None) -> tuple[int, Any]:
        """Answer one request."""
        match [unquote(part) for part in path.strip("/").split("/")]:
            case ["schemas", "ids", number] if int(number) <= len(self.schemas):
                return 200, {**self.schemas[int(number) - 1], "guid": guid_of(int(number))}
            case ["schemas", "guids", guid]:
                for number, each in enumerate(self.schemas, 1):
                    if guid_of(number) == guid:
                        return 200, {**each, "guid": guid}
            case ["subjects", subject, "versions"] if body is not None:
                number = self.add(
                    subject, body["schema"], body.get("schemaType") or "AVRO", body.get("references") or ()
                )
                return 200, {"id": number}
            case ["subjects", subject, "versions", wanted] if subject in self.subjects:
                versions = self.subjects[subject]
                index = len(versions) if wanted in ("latest", "-1") else int(wanted)
                if 1 <= index <= len(versions):
                    return 200, self._registered(subject, index)
                return 404, {"error_code": 40402, "message": f"Version {wanted} not found."}
            case ["subjects", subject] if body is not None and subject in self.subjects:
                for index, number in enumerate(self.subjects[subject], 1):
                    if self.schemas[number - 1]["schema"] == body["schema"]:
                        return 200, self._registered(subject, index)
        return 404, {"error_code": 40403, "message": "Schema not found"}

    def _registered(self, subject: str, index: int) -> dict[str, Any]:
        number = self.subjects[subject][index - 1]
        schema = self.schemas[number - 1]
        return {**schema, "subject": subject, "version": index, "id": number, "guid": guid_of(number)}


def guid_of(number: int) -> str:
    """The GUID of the schema with an id."""
    return str(uuid.UUID(int=number))
