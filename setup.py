"""The one thing that pyproject.toml cannot say yet without a warning: extensions that may fail to build.

Without a C compiler Moldau installs all the same; each kernel has a twin in Python beside it, which does the
same more slowly, and `moldau version` names the kernels that are missing.
"""

from glob import glob

from setuptools import Extension, setup

KERNELS = (
    "moldau.client._columns",
    "moldau.broker.log.compaction._kernel",
    "moldau.common.protocol._repeat",
    "moldau.common.records._headers",
    "moldau.common.records._usual",
    "moldau.common.records._walk",
    "moldau.schemas.columns._decode",
    "moldau.schemas.columns._encode",
)


def extension(name: str) -> Extension:
    """A kernel, built again when a header beside it changes."""
    source = f"src/{name.replace('.', '/')}.c"
    headers = sorted(glob(f"{source.rpartition('/')[0]}/*.h"))
    return Extension(name, [source], depends=headers, extra_compile_args=["-O3"], optional=True)


setup(ext_modules=[extension(name) for name in KERNELS])
