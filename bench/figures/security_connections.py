"""1,000 TLS connections at once: how long until all are served, and what others wait meanwhile.

    | quiet: a good client alone | all 1,000 open, shake hands and ask for ApiVersions | 2 s after it |

The good client (`bench/good_client.py`) has its connection already, over TLS too, and does a round trip every
10 ms. It and the newcomers (`bench/tls_storm.py`) are processes of their own. No session is resumed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.client import Connection
from bench.figures import Figure, Row, Start, Values
from bench.figures.hostile import GoodClient
from bench.login import connector
from bench.secured import SecuredProcess, running

ROOT = Path(__file__).parents[2]
COUNT, WARM_UP_COUNT, WARM_UPS = 1_000, 300, 3
QUIET_S, AFTER_S = 4.0, 2.0
TOPIC = "good"


def measure(start: Start) -> Values:
    """Seconds until all are served, the broker's CPU for each, and the good client's waits."""
    with running(start, "SSL", "MUTUAL", authorizer=False) as broker:
        port, authority = broker.port, broker.security.authority.certificate
        with Connection(port, connect=connector(broker.security.login("SSL"))) as connection:
            connection.create_topic(TOPIC)
        for _ in range(WARM_UPS):
            _storm(broker, WARM_UP_COUNT)
        good = GoodClient("tls", str(port), TOPIC, str(authority))
        time.sleep(1.0)
        good.begin("quiet")
        time.sleep(QUIET_S)
        good.begin("storm")
        before = broker.cpu()
        told = _storm(broker, COUNT)
        used = broker.cpu() - before
        time.sleep(AFTER_S)
        waits = good.end()
    served = COUNT - told["failed"]
    return {
        **{name: float(value) for name, value in told.items()},
        "cpu_ms": used.total_s / served * 1e3,
        **_waits(waits, "quiet", "quiet_"),
        **_waits(waits, "storm", ""),
    }


def _storm(broker: SecuredProcess, count: int) -> Mapping[str, float]:
    arguments = [str(broker.port), str(broker.security.authority.certificate), str(count)]
    process = subprocess.run(
        [sys.executable, "-m", "bench.tls_storm", *arguments],
        input="\n",
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=False,
    )
    if process.returncode:
        raise RuntimeError(f"the newcomers failed: {process.stderr[-2000:]}")
    told: Mapping[str, float] = json.loads(process.stdout.splitlines()[-1])
    return told


def _waits(told: Mapping[str, Any], stretch: str, prefix: str) -> Values:
    waits = sorted(told["waits_ms"][stretch])
    return {
        f"{prefix}wait_p99_ms": waits[int(len(waits) * 0.99)],
        f"{prefix}wait_longest_ms": waits[-1],
        f"{prefix}wait_failed": told["failed"][stretch],
    }


FIGURE = Figure(
    "security-connections",
    "1,000 TLS connections at once",
    measure,
    (
        Row("all_s", "until all are served", "s", 2),
        Row("p50_ms", "until half are", "ms", 0),
        Row("failed", "not served", "", 0),
        Row("cpu_ms", "broker CPU a connection", "ms", 2),
        Row("wait_p99_ms", "a good client meanwhile, 99 %", "ms", 1),
        Row("wait_longest_ms", "its longest wait", "ms", 1),
        Row("quiet_wait_p99_ms", "the good client alone, 99 %", "ms", 1),
        Row("quiet_wait_longest_ms", "its longest wait", "ms", 1),
    ),
    "The newcomers' own handshakes share the two cores with the broker and the good client. The good client "
    "produces and fetches a record every 10 ms; a wait is counted from the moment at which its round trip "
    "was due, over the storm and the two seconds after it.",
)
