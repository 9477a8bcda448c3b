"""Kafka's own nodes, which older clients, tools and administrators look at. Only the cluster id is read.

The formats are those of Kafka up to 3.9 with ZooKeeper: broker registrations have version 5, the controller
version 2, the cluster id version 1.
"""

import json
from collections.abc import Mapping

from moldau.broker.metadata.store import Registration


def broker_json(broker: Registration, protocols: Mapping[str, str], now_ms: int) -> bytes:
    """/brokers/ids/<id>. `protocols`: the security protocol of each listener."""
    # The older fields host and port name a plaintext listener; without one they are null and -1.
    plain = next(
        (broker.endpoints[name] for name in broker.endpoints if protocols.get(name, name) == "PLAINTEXT"),
        (None, -1),
    )
    value = {
        "version": 5,
        "host": plain[0],
        "port": plain[1],
        "jmx_port": -1,
        "timestamp": str(now_ms),
        "endpoints": [
            f"{name}://{f'[{host}]' if ':' in host else host}:{port}"
            for name, (host, port) in broker.endpoints.items()
        ],
        "listener_security_protocol_map": {name: protocols.get(name, name) for name in broker.endpoints},
        "rack": broker.rack,
        "features": {},
    }
    if broker.rack is None:
        del value["rack"]
    return json.dumps(value).encode()


def controller_json(node_id: int, now_ms: int) -> bytes:
    """/controller."""
    return json.dumps(
        {"version": 2, "brokerid": node_id, "timestamp": str(now_ms), "kraftControllerEpoch": -1}
    ).encode()


def cluster_json(cluster_id: str) -> bytes:
    """/cluster/id."""
    return json.dumps({"version": "1", "id": cluster_id}).encode()


def read_cluster_id(data: bytes) -> str:
    """The id in /cluster/id."""
    return str(json.loads(data)["id"])
