"""A notebook that reads the files: written for Jupyter, and run here cell by cell, to show that it does
what it says."""

from __future__ import annotations

import json
from pathlib import Path

TITLE = (
    "# Departures, from PostgreSQL by way of Kafka\n\nOne Parquet file a while and airline, each line a "
    "change of a "
    "row. The last change of each row is the table as it is now."
)


def cells(lake: Path, picture: Path) -> list[str]:
    """The code."""
    return [
        "import pandas as pd\nimport pyarrow.dataset as ds\n\n"
        f"files = ds.dataset({str(lake)!r}, format='parquet', partitioning='hive', "
        f"exclude_invalid_files=True)\n"
        "changes = files.to_table().to_pandas()\nlen(changes)",
        "latest = changes.sort_values(['id', '__source_lsn'], kind='stable').drop_duplicates('id', "
        "keep='last')\n"
        "flights = latest[latest['__deleted'] != 'true']\nlen(flights)",
        "delays = flights.groupby('airline')['dep_delay'].mean().sort_values()\ndelays.round(1)",
        "import matplotlib\n\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt\n\n"
        "axes = delays.plot.barh(color='#3b6ea5', figsize=(7, 5))\n"
        "axes.set_xlabel('mean delay at departure, minutes')\naxes.set_ylabel('')\n"
        "axes.spines[['top', 'right']].set_visible(False)\nplt.tight_layout()\n"
        f"plt.savefig({str(picture)!r}, dpi=120)",
    ]


def write_and_run(lake: Path, notebook: Path, picture: Path) -> int:
    """Write the notebook, run its cells; the number of rows that it found."""
    code = cells(lake, picture)
    sources = [("markdown", TITLE), *(("code", text) for text in code)]
    body = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        "cells": [
            {
                "id": f"cell-{number}",
                "cell_type": kind,
                "metadata": {},
                "source": text.splitlines(keepends=True),
                **({"outputs": [], "execution_count": None} if kind == "code" else {}),
            }
            for number, (kind, text) in enumerate(sources)
        ],
    }
    notebook.write_text(json.dumps(body, indent=1), "utf-8")
    names: dict[str, object] = {}
    for text in code:
        exec(compile(text, str(notebook), "exec"), names)
    found = names["flights"]
    assert hasattr(found, "__len__")
    return len(found)
