"""What tests of several folders share."""

import os
from typing import TYPE_CHECKING, Any

import hung_tests
import pytest
import run_times
from hung_tests import (  # noqa: F401  (hooks)
    pytest_exception_interact,
    pytest_runtest_protocol,
    pytest_sessionfinish,
)
from hypothesis import HealthCheck, settings
from short_names import short_name

from moldau.broker.log.compaction import kernel

if TYPE_CHECKING:
    from run_order import LongestFirst

# A busy machine is slow, not wrong: by itself Hypothesis fails an example that takes 200 ms.
_PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
# The same examples in every run, so that a change is judged by what it changed; new ones are looked for with
# MOLDAU_NEW_EXAMPLES=1 (docs/testing.md).
settings.register_profile("same", derandomize=True, database=None, **_PATIENT)
settings.register_profile("new", **_PATIENT)
settings.load_profile("new" if os.environ.get("MOLDAU_NEW_EXAMPLES") else "same")

# Programs that tests start write into pipes as users' do, with a buffer: its order with other writes counts.
os.environ.pop("PYTHONUNBUFFERED", None)


def pytest_configure(config: pytest.Config) -> None:
    hung_tests.pytest_configure(config)
    run_times.record_times(config)


def pytest_make_parametrize_id(val: object) -> str | None:
    return short_name(val)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> "LongestFirst | None":
    """`--dist loadgroup` deals groups and files, the longest first; anything else is left to pytest-xdist."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from run_order import LongestFirst

    return LongestFirst(config, log)


@pytest.fixture(params=("python", "compiled"))
def compaction_kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Compaction with each kernel in turn, also in processes that the test starts."""
    if request.param == "compiled" and kernel.compiled is None:
        pytest.skip("the compiled kernel is not installed: there was no C compiler")
    monkeypatch.setenv(kernel.ENVIRONMENT, request.param)
    assert kernel.kernel_name() == request.param
    return str(request.param)
