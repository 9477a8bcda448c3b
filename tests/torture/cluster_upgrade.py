"""An upgrade under load, as docs/cluster.md says: broker after broker, then the metadata level.

    upgrade     each broker in turn is stopped and started as the newer release. As long as one is older, the
                level is not raised; then it is. The older release refuses to serve it, with a sentence.

The older release is this source tree, and the newer one the same that reads one metadata level more
(release.py). MOLDAU_TORTURE_OLDER names the `src` folder of another checkout: then that is the older release,
this tree the newer, and the level is raised as far as this tree goes.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from moldau.broker.metadata.levels import FEATURE, LEVEL_MAX
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from moldau.testing import Cluster
from moldau.testing.in_process import BrokerDidNotStart
from torture import HERE
from torture.cluster_faults import Faults
from torture.cluster_views import ask
from torture.rounds import Failure

UPGRADE = "upgrade"
KINDS = (UPGRADE,)
OLDER_SOURCE = os.environ.get("MOLDAU_TORTURE_OLDER", "")
LEVEL = LEVEL_MAX if OLDER_SOURCE else LEVEL_MAX + 1
OLDER: Mapping[str, object] = {"source": OLDER_SOURCE, "level": 0}
NEWER: Mapping[str, object] = {"source": "", "level": 0 if OLDER_SOURCE else LEVEL}
DONE_WITHIN_S = 60.0
VERSION = 1


def program(folder: Path, node: int) -> list[str]:
    """The words before `serve` of a broker that can be upgraded; it begins as the older release."""
    _plan(folder, node).write_text(json.dumps(OLDER))
    return [sys.executable, str(HERE / "release.py"), str(_plan(folder, node))]


def _plan(folder: Path, node: int) -> Path:
    return folder / f"release-{node}.json"


class Upgrade:
    """Adds this fault to those that a round has."""

    def __init__(self, faults: Faults, folder: Path) -> None:
        self._faults = faults
        self._cluster: Cluster = faults.cluster
        self._folder = folder

    def kinds(self) -> dict[str, Callable[[], None]]:
        """What each of KINDS does."""
        return {UPGRADE: self._upgrade}

    def _upgrade(self) -> None:
        nodes = self._faults.draw.sample(self._cluster.node_ids, len(self._cluster.node_ids))
        for node in nodes:
            if not OLDER_SOURCE and not self._raise():
                raise Failure(f"level {LEVEL} was taken while broker {node} cannot read it")
            with self._faults.fault(f"upgrade {node}"):
                self._faults.felt = True
                self._cluster.stop(node)
                _plan(self._folder, node).write_text(json.dumps(NEWER))
                self._cluster.restart(node)
                self._cluster.wait_until_in_sync()
        deadline = time.monotonic() + DONE_WITHIN_S
        while problem := self._raise():
            if time.monotonic() > deadline:
                raise Failure(f"all brokers read level {LEVEL}, but it is refused: {problem}")
            time.sleep(0.2)
        if not OLDER_SOURCE:
            self._downgrade(nodes[0])

    def _raise(self) -> str:
        """Ask for the newer level; "" or why not."""
        request = UpdateFeaturesRequest(
            feature_updates=[FeatureUpdateKey(feature=FEATURE, max_version_level=LEVEL)]
        )
        answer = ask(self._cluster.bootstrap_servers.split(","), request, VERSION)
        if answer is None:
            return "nobody answers"
        found = [(one.error_code, one.error_message) for one in answer.results if one.error_code]
        if answer.error_code:
            found.append((answer.error_code, answer.error_message))
        return ", ".join(f"{ErrorCode(code).name}: {text}" for code, text in found)

    def _downgrade(self, node: int) -> None:
        """The older release cannot come back."""
        with self._faults.fault(f"downgrade {node}"):
            self._faults.felt = True
            self._cluster.stop(node)
            _plan(self._folder, node).write_text(json.dumps(OLDER))
            try:
                self._cluster.restart(node)
            except BrokerDidNotStart as refusal:
                if "the cluster's metadata is at level" not in str(refusal):
                    raise
            else:
                raise Failure(f"broker {node} of the older release serves level {LEVEL}")
            _plan(self._folder, node).write_text(json.dumps(NEWER))
            self._cluster.restart(node)
