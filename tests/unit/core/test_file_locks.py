"""A lock on a file, as every `Files` must keep it: the machine's own and the simulated one."""

from pathlib import Path

import pytest

from moldau.common.core.files import Files, OsFiles
from moldau.testing.simulated_files import SimulatedFiles


@pytest.fixture(params=["machine", "simulated"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    files = OsFiles() if request.param == "machine" else SimulatedFiles()
    files.make_directory(str(tmp_path))
    return files, str(tmp_path / ".lock")


def test_one_descriptor_has_the_lock_until_it_is_closed(place: tuple[Files, str]) -> None:
    files, path = place
    first, second = files.open(path, create=True), files.open(path)
    assert files.lock(first)
    assert files.lock(first)
    assert not files.lock(second)
    files.close(first)
    assert files.lock(second)
    files.close(second)


def test_locks_of_two_files_do_not_meet(place: tuple[Files, str]) -> None:
    files, path = place
    first, second = files.open(path, create=True), files.open(path + "2", create=True)
    assert files.lock(first)
    assert files.lock(second)
    files.close(first)
    files.close(second)


def test_a_process_that_is_killed_holds_no_lock() -> None:
    files = SimulatedFiles()
    files.make_directory("/data")
    assert files.lock(files.open("/data/.lock", create=True))
    files.process_kill()
    assert files.lock(files.open("/data/.lock"))
