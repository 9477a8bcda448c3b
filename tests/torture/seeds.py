"""One number decides a round: every part draws from a generator of its own, named after the part.

Parts that share a generator would change each other's draws as soon as one of them asks once more.
"""

from __future__ import annotations

import random


def generator(seed: int, part: str) -> random.Random:
    """The generator of one part; a text as seed does not depend on the process's hash seed."""
    return random.Random(f"{seed}/{part}")
