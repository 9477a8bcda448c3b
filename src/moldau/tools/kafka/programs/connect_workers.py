"""connect-distributed [-daemon] FILE, connect-standalone [-daemon] FILE [CONNECTOR ...]: a Connect worker.

The same as `moldau connect run FILE [CONNECTOR...]`. With -daemon it returns once the worker belongs to its
group.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from moldau.tools.kafka.lines.script_words import script_words
from moldau.tools.kafka.problems import FAILED, CommandLineError

_READY = "Connect worker is ready"


def distributed(words: Sequence[str]) -> int:
    """Run a worker of a group until SIGTERM or SIGINT. Returns the exit code."""
    usage = "USAGE: connect-distributed.sh [-daemon] connect-distributed.properties"
    return _run("connect-distributed", words, usage)


def standalone(words: Sequence[str]) -> int:
    """Run a worker alone until SIGTERM or SIGINT. Returns the exit code."""
    usage = (
        "USAGE: connect-standalone.sh [-daemon] connect-standalone.properties "
        "[connector1.properties connector2.json ...]"
    )
    return _run("connect-standalone", words, usage)


def _run(tool: str, words: Sequence[str], usage: str) -> int:
    files, _, background = script_words(words, usage, files_max=None)
    if tool == "connect-distributed" and len(files) > 1:
        raise CommandLineError(f"Found non argument parameters: {' '.join(files[1:])}", usage)
    for each in files:
        if not Path(each).is_file():
            raise CommandLineError(f"{each} is not there", usage)
    if background:
        from moldau.tools.kafka.homes.processes import in_background, log_folder

        output = log_folder(files[0]) / "connect.out"
        in_background(tool, list(files), output, lambda said: _READY in said)
        return 0
    from moldau.tools.commands.connect.running import run_worker
    from moldau.tools.commands.connect.worker_files import connector_file, worker_texts
    from moldau.tools.shared.errors import UsageError

    try:
        texts = worker_texts(Path(files[0]))
        if tool == "connect-standalone":
            texts.pop("group.id", None)
        connectors = [connector_file(Path(each)) for each in files[1:]]
    except UsageError as problem:
        raise CommandLineError(str(problem), usage) from None
    return FAILED if run_worker(texts, connectors, file=Path(files[0]), as_json=False) else 0
