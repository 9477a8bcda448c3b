"""The one thing that pyproject.toml cannot say yet without a warning: extensions that may fail to build.

Without a C compiler Moldau installs all the same; each kernel has a twin in Python beside it, which does the
same more slowly, and `moldau version` names the kernels that are missing.
"""

from setuptools import Extension, setup

KERNELS = (
    "moldau.client._columns",
    "moldau.log.compaction._kernel",
    "moldau.protocol._repeat",
    "moldau.records._headers",
    "moldau.records._usual",
    "moldau.records._walk",
)

setup(
    ext_modules=[
        Extension(name, [f"src/{name.replace('.', '/')}.c"], extra_compile_args=["-O3"], optional=True)
        for name in KERNELS
    ]
)
