"""A broker that answers as a test wants: a real socket, real frames, one function for each request."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Mapping

from moldau.common.protocol.declare import Message
from moldau.common.protocol.frames import frame_response, has_tagged_response_header, parse_request_header
from moldau.common.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from moldau.common.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

Answer = Callable[[Message], Message | None]


class ScriptedBroker:
    """Serves until the `with` block ends. `answers` maps request classes to functions; one that gives None
    closes the connection. It speaks each API in the versions `versions` names (default: the newest alone).
    """

    def __init__(
        self,
        answers: Mapping[type[Message], Answer],
        *,
        versions: Mapping[type[Message], int] | None = None,
        topic: str = "t",
        tls: ssl.SSLContext | None = None,
        api_versions_newest: int = 4,
    ) -> None:
        self._answers = {MetadataRequest: self._metadata, **answers}
        self._versions = versions or {}
        self._topic = topic
        self._tls = tls
        self._api_versions_newest = api_versions_newest
        self.requests: list[Message] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self._accepted: list[socket.socket] = []

    def _metadata(self, request: Message) -> Message:
        partition = MetadataResponsePartition(partition_index=0, leader_id=1)
        topic = MetadataResponseTopic(name=self._topic, topic_id=b"i" * 16, partitions=[partition])
        broker = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port)
        return MetadataResponse(brokers=[broker], topics=[topic])

    def __enter__(self) -> ScriptedBroker:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()
        for each in self._accepted:
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
                if self._tls is not None:
                    connection = self._tls.wrap_socket(connection, server_side=True)
            except ssl.SSLError:
                continue
            except OSError:
                return
            self._accepted.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as stream:
                while size := stream.read(4):
                    answer = self._answer(stream.read(int.from_bytes(size, "big")))
                    if answer is None:
                        return
                    connection.sendall(answer)
        except OSError:
            return

    def _answer(self, frame: bytes) -> bytes | None:
        header = parse_request_header(frame)
        if header.api_key == ApiVersionsRequest.KEY:
            return self._hello(header.api_version, header.correlation_id)
        kind = next(each for each in self._answers if header.api_key == each.KEY)
        request = kind.decode(frame, header.api_version, header.body_offset)
        self.requests.append(request)
        answer = self._answers[kind](request)
        if answer is None:
            return None
        tagged = has_tagged_response_header(header.api_key, header.api_version)
        return frame_response(header.correlation_id, tagged, answer.encode(header.api_version))

    def _hello(self, version: int, correlation_id: int) -> bytes:
        table = [ApiVersion(api_key=18, max_version=self._api_versions_newest)]
        for kind in self._answers:
            newest = self._versions.get(kind, kind.VERSIONS[1])
            table.append(ApiVersion(api_key=kind.KEY, min_version=newest, max_version=newest))
        known = version <= self._api_versions_newest
        answer = ApiVersionsResponse(error_code=0 if known else 35, api_keys=table)
        return frame_response(correlation_id, False, answer.encode(version if known else 0))
