"""The world of these tests, closed when each is over."""

from collections.abc import Iterator

import pytest
from transaction_world import World


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()
