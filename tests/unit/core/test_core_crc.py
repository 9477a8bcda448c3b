"""crc32c without its package's command line."""

from __future__ import annotations

import subprocess
import sys

from moldau.common.core.crc import crc32c


def test_the_check_value_of_the_castagnoli_polynomial() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(memoryview(bytearray(b"123456789"))) == 0xE3069283
    assert crc32c(b"6789", crc32c(b"12345")) == 0xE3069283


def test_the_package_is_not_imported() -> None:
    program = "import sys, moldau.common.core.crc; sys.exit(bool({'argparse', 'crc32c'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", program], check=True)
