"""The chain of transforms of a connector: what of it fails are problems of a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from moldau.connect.batch import Batch
from moldau.connect.transforms.building import chain_of
from moldau.connect.transforms.chain import Chain
from moldau.services.connect.runtime.problems import Problem, Stage


class Steps:
    """The whole chain."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain

    def __bool__(self) -> bool:
        return bool(self._chain.stages)

    def apply(self, batch: Batch) -> tuple[list[Batch], list[Problem]]:
        """What becomes of a batch, in order; `rows` of each says which rows of this batch they were."""
        if not self:
            return [replace(batch, rows=pa.array(np.arange(len(batch))))], []
        made, failures = self._chain.apply(batch)
        problems = [
            Problem(each.row, Stage.TRANSFORMATION, each.stage.class_name, each.error) for each in failures
        ]
        return list(made), problems

    def close(self) -> None:
        """Let go of what transforms hold."""
        self._chain.close()


def steps_of(config: Mapping[str, str]) -> Steps:
    """The chain that a connector's settings describe. ConnectError."""
    return Steps(chain_of(config))
