"""Of a failure's long text, the sentence that says what happened first."""

from __future__ import annotations

import pytest

from moldau.streams.failures import Cure, cure_of, sentence

SPARK = "/opt/venv/lib/python3.11/site-packages/pyspark/sql/streaming/python_streaming_source_runner.py"
OURS = "/opt/venv/lib/python3.11/site-packages/pyspark_moldau/options.py"
WHILE = "\nDuring handling of the above exception, another exception occurred:\n\n"


def trace(file: str, error: str) -> str:
    return f'Traceback (most recent call last):\n  File "{file}", line 1, in f\n    f()\n{error}\n'


WRAPPED = "org.apache.spark.SparkException: [PYTHON_DATA_SOURCE_ERROR] Failed: "


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            WRAPPED
            + trace(OURS, "pyspark_moldau.errors.OptionError: which topics?")
            + WHILE
            + trace(
                SPARK, "UnboundLocalError: cannot access local variable 'reader' where it is not associated"
            ),
            "which topics?",
        ),
        (
            WRAPPED + trace("/app.py", "KeyError: 'XX'") + WHILE + trace("/app.py", "ValueError: no carrier"),
            "ValueError: no carrier (while handling KeyError: 'XX')",
        ),
        (
            trace("/app.py", "ConnectionRefusedError: refused")
            + "\nThe above exception was the direct cause of the following exception:\n\n"
            + trace(OURS, "moldau.client.errors.ClusterTimeout: nobody answers"),
            "nobody answers",
        ),
        (
            WRAPPED + trace("/app.py", "ZeroDivisionError: division by zero"),
            "ZeroDivisionError: division by zero",
        ),
        ("org.apache.spark.sql.AnalysisException: [X] no column a\n\tat Y", "[X] no column a"),
        (
            "[STREAM_FAILED] Query [id = a] terminated with exception: "
            "An exception was raised by the Python Proxy. Return Message: "
            + trace(SPARK, "py4j.protocol.Py4JJavaError: An error occurred while calling o6.save.")
            + ": org.apache.spark.SparkException: Job aborted: Lost task: java.io.EOFException\n\tat Y",
            "Job aborted: Lost task: java.io.EOFException",
        ),
        ("", "str"),
    ],
)
def test_the_first_cause_is_told(text: str, said: str) -> None:
    assert sentence(text) == said


def test_a_real_chain_of_python() -> None:
    """As Spark hands it on: what a reader's constructor raised, and what the clean-up made of it."""
    import traceback

    namespace: dict[str, object] = {}
    code = compile(
        "def run(make):\n    try:\n        reader = make()\n    finally:\n        reader.stop()\n",
        SPARK,
        "exec",
    )
    exec(code, namespace)

    def make() -> None:
        raise ValueError("the topic t does not exist")

    with pytest.raises(UnboundLocalError) as raised:
        namespace["run"](make)  # type: ignore[operator]
    text = "".join(traceback.format_exception(raised.value))
    assert sentence(text) == "ValueError: the topic t does not exist"


def test_what_may_help() -> None:
    assert cure_of("FencedError: another driver has taken over") is Cure.NONE
    assert cure_of("ClusterTimeout: x") is Cure.WAIT
    assert cure_of("OptionError: x") is Cure.AGAIN
    for spark_says in (
        "org.apache.spark.SparkException: Python worker failed to connect back.",
        "java.net.SocketTimeoutException: Timed out while waiting for the Python worker to connect back",
    ):
        assert cure_of(spark_says) is Cure.PATIENCE
