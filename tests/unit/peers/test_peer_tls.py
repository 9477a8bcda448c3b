"""Connections to other brokers over TLS, on this machine's sockets: certificates are checked, by name too."""

import asyncio
import random
import ssl
from concurrent.futures import ThreadPoolExecutor

import pytest

from moldau.broker.metadata.image import BrokerState, Image
from moldau.broker.peers.broker_peers import BrokerPeers
from moldau.broker.peers.peers import PeerError
from moldau.common.core.network import SystemNetwork
from moldau.common.core.slow_lane import SlowLane
from moldau.common.core.timers import LoopTimers
from moldau.common.credentials.client.options import ClientSecurity
from moldau.common.credentials.tls.options import TlsOptions
from moldau.common.protocol.frames import frame_response, parse_request_header
from moldau.common.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from moldau.common.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from moldau.testing.authority import Authority

WAIT_MS = 120_000


class Machine:
    def __init__(self):
        self.loop = asyncio.get_running_loop()
        self.network = SystemNetwork(self.loop)
        self.timers = LoopTimers(self.loop)
        self.random = random.Random(1)
        self.workers = ThreadPoolExecutor(1)


async def _serve(reader, writer):
    try:
        while True:
            size = int.from_bytes(await reader.readexactly(4), "big")
            if size > 1 << 20:  # no frame of Kafka's: a broker closes the connection
                return
            frame = await reader.readexactly(size)
            header = parse_request_header(frame)
            if header.api_key == EndTxnRequest.KEY:
                body = EndTxnResponse(error_code=7).encode(header.api_version)
                writer.write(frame_response(header.correlation_id, True, body))
            else:
                rows = [ApiVersion(api_key=EndTxnRequest.KEY, min_version=3, max_version=3)]
                body = ApiVersionsResponse(api_keys=rows).encode(header.api_version)
                writer.write(frame_response(header.correlation_id, False, body))
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("peers"))


def _ask(context, options, name="127.0.0.1"):
    """One request to a broker that serves with this context, by a broker with these options."""

    async def run():
        server = await asyncio.start_server(_serve, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        image = Image(version=1, brokers={2: BrokerState(2, 1, {"INSIDE": (name, port)})})
        machine = Machine()
        peers = BrokerPeers(
            1,
            lambda: image,
            machine,
            SlowLane(),
            purpose="test",
            listener_name="INSIDE",
            setup_timeout_ms=WAIT_MS,
            frame_bytes_max=1 << 20,
            secure=lambda listener: lambda: ClientSecurity("SSL", options),
        )
        try:
            return await peers.send(2, EndTxnRequest(), timeout_ms=WAIT_MS)
        finally:
            peers.close()
            server.close()
            machine.workers.shutdown()

    return asyncio.run(run())


def _context(pair, authority, *, wants_certificate=False):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.certificate))
    context.load_cert_chain(pair.certificate, pair.key)
    context.verify_mode = ssl.CERT_REQUIRED if wants_certificate else ssl.CERT_NONE
    return context


def _trusting(authority, pair=None, **more):
    own = {"keystore_type": "PEM", "keystore_location": str(pair.store)} if pair is not None else {}
    return TlsOptions(truststore_type="PEM", truststore_location=str(authority.certificate), **own, **more)


def test_a_request_over_tls_with_certificates_of_both(authority):
    context = _context(authority.issue("two"), authority, wants_certificate=True)
    assert _ask(context, _trusting(authority, authority.issue("one"))).error_code == 7


def test_a_certificate_for_another_host_is_refused(authority):
    context = _context(authority.issue("elsewhere", ["elsewhere.example"]), authority)
    with pytest.raises(PeerError, match=r"its certificate is refused: .*127\.0\.0\.1"):
        _ask(context, _trusting(authority))
    unchecked = _trusting(authority, endpoint_identification_algorithm="")
    assert _ask(context, unchecked).error_code == 7


def test_a_certificate_of_another_authority_is_refused(authority, tmp_path):
    stranger = Authority(tmp_path, "a stranger")
    context = _context(stranger.issue("two"), stranger)
    with pytest.raises(PeerError, match="its certificate is refused"):
        _ask(context, _trusting(authority))


def test_a_broker_without_the_certificate_that_is_wanted(authority):
    context = _context(authority.issue("two"), authority, wants_certificate=True)
    with pytest.raises(PeerError):  # in TLS 1.3 the refusal comes with the first response
        _ask(context, _trusting(authority))


def test_a_listener_without_tls_is_named(authority):
    with pytest.raises(PeerError, match="TLS"):
        _ask(None, _trusting(authority))


def test_a_key_store_that_cannot_be_read_is_named(authority):
    options = _trusting(authority, keystore_type="PEM", keystore_location="/nowhere/broker.pem")
    with pytest.raises(PeerError, match=r"/nowhere/broker\.pem: the file cannot be read"):
        _ask(_context(authority.issue("two"), authority), options)
