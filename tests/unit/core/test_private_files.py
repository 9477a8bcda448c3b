"""Files with secrets are readable for the broker's user only."""

import os
from pathlib import Path

from moldau.broker.metadata.embedded import FILE_NAME
from moldau.common.core.files import OsFiles, write_atomically


def test_metadata_is_readable_for_this_user_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_atomically(OsFiles(), str(tmp_path / FILE_NAME), b"secret")
        write_atomically(OsFiles(), str(tmp_path / "checkpoint"), b"open")
    finally:
        os.umask(before)
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "checkpoint").stat().st_mode & 0o777 == 0o644
