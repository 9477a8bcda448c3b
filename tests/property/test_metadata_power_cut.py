"""The power goes at any step of the metadata store's work: what was acknowledged is there, and whole."""

import asyncio
import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.broker.metadata.changes import ConfigsChanged, replay
from moldau.broker.metadata.embedded import EmbeddedStore
from moldau.broker.metadata.image import EMPTY_IMAGE, Image, ResourceType
from moldau.broker.metadata.store import OutcomeUnknown
from moldau.testing.simulated_files import Crash, SimulatedFiles


class NoLock:
    def release(self) -> None:
        pass


async def inline(blocking):
    blocking()


def store_on(files: SimulatedFiles, snapshot_min_bytes: int) -> EmbeddedStore:
    return EmbeddedStore(
        "/data", snapshot_min_bytes, files=files, lock=lambda folder: NoLock(), offload=inline
    )


def change(number: int) -> ConfigsChanged:
    # Longer than a page of the simulated disk, so that one entry can be torn in the middle.
    return ConfigsChanged(ResourceType.TOPIC, f"t{number % 3}", {"x": str(number) * (number % 5 * 300 + 1)})


async def life(
    files: SimulatedFiles, appends: int, snapshot_min_bytes: int, acknowledged: list[Image]
) -> None:
    """Open, append, note what was acknowledged."""
    store = store_on(files, snapshot_min_bytes)
    image = await store.open()
    assert image.version >= acknowledged[-1].version
    expected = {one.version: one for one in acknowledged}
    if image.version in expected:
        assert image == expected[image.version]
    acknowledged.append(image)
    for _ in range(appends):
        entry = [change(image.version)]
        version = await store.append_if(image.version, entry)
        image = replay(image, version, entry)
        acknowledged.append(image)


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    steps=st.lists(st.integers(1, 60), min_size=1, max_size=4),
    snapshot_min_bytes=st.sampled_from([1, 2000, 1 << 30]),
    power=st.booleans(),
)
def test_acknowledged_changes_survive(seed, steps, snapshot_min_bytes, power):
    files = SimulatedFiles(seed)
    files.make_directory("/data")
    acknowledged = [EMPTY_IMAGE]
    for step in steps:
        left = [step]

        def fault(operation: str, path: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Crash

        files.fault = fault
        with contextlib.suppress(Crash):
            asyncio.run(life(files, 12, snapshot_min_bytes, acknowledged))
        files.fault = lambda operation, path: None
        if power:
            files.power_cut()
        else:
            files.process_kill()
    asyncio.run(life(files, 2, snapshot_min_bytes, acknowledged))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), failing=st.sets(st.integers(0, 120), max_size=12))
def test_failing_writes_are_refused_and_leave_nothing(seed, failing):
    """Errors of the disk at any step: an append is refused or done, never half there, and where the store
    cannot tell which, it says so and takes no more."""

    async def scenario() -> None:
        files = SimulatedFiles(seed)
        files.make_directory("/data")
        store = store_on(files, 1500)
        image = await store.open()
        possible = [image]
        count = [0]

        def fault(operation: str, path: str) -> None:
            count[0] += 1
            if count[0] in failing:
                raise OSError(5, "Input/output error")

        files.fault = fault
        for number in range(40):
            entry = [change(number)]
            try:
                version = await store.append_if(image.version, entry)
            except OSError:
                continue
            except OutcomeUnknown:
                assert len(possible) == 1
                possible.append(replay(image, image.version + 1, entry))
                continue
            assert len(possible) == 1
            image = replay(image, version, entry)
            possible = [image]
        files.fault = lambda operation, path: None
        files.power_cut()
        assert await store_on(files, 1500).open() in possible

    asyncio.run(scenario())
