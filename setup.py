"""The one thing that pyproject.toml cannot say yet without a warning: extensions that may fail to build.

Without a C compiler Moldau installs all the same; their twins in Python then do the work
(src/moldau/client/columns.py, src/moldau/records/walk.py, src/moldau/log/compaction/kernel.py), and
`moldau version` says so.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(name, [f"src/{name.replace('.', '/')}.c"], extra_compile_args=["-O3"], optional=True)
        for name in ("moldau.client._columns", "moldau.records._walk", "moldau.log.compaction._kernel")
    ]
)
