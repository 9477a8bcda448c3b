"""The one thing that pyproject.toml cannot say yet without a warning: extensions that may fail to build.

Without a C compiler Moldau installs all the same; their twins in Python then do the work
(src/moldau/client/columns.py, src/moldau/records/walk.py), and `moldau version` says so.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "moldau.client._columns",
            ["src/moldau/client/_columns.c"],
            extra_compile_args=["-O3"],
            optional=True,
        ),
        Extension(
            "moldau.records._walk",
            ["src/moldau/records/_walk.c"],
            extra_compile_args=["-O3"],
            optional=True,
        ),
    ]
)
