"""The one thing that pyproject.toml cannot say yet without a warning: an extension that may fail to build.

Without a C compiler Moldau installs all the same; records are then decoded by its twin in Python
(src/moldau/client/columns.py), and `moldau version` says so.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "moldau.client._columns",
            ["src/moldau/client/_columns.c"],
            extra_compile_args=["-O3"],
            optional=True,
        )
    ]
)
