"""What tests of several folders share."""

import os

import pytest
from hung_tests import (  # noqa: F401  (hooks)
    pytest_configure,
    pytest_exception_interact,
    pytest_runtest_protocol,
    pytest_sessionfinish,
)
from hypothesis import HealthCheck, settings

from moldau.log.compaction import kernel

# A busy machine is slow, not wrong: by itself Hypothesis fails an example that takes 200 ms.
_PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
# The same examples in every run, so that a change is judged by what it changed; new ones are looked for with
# MOLDAU_NEW_EXAMPLES=1 (docs/testing.md).
settings.register_profile("same", derandomize=True, database=None, **_PATIENT)
settings.register_profile("new", **_PATIENT)
settings.load_profile("new" if os.environ.get("MOLDAU_NEW_EXAMPLES") else "same")


@pytest.fixture(params=("python", "compiled"))
def compaction_kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Compaction with each kernel in turn, also in processes that the test starts."""
    if request.param == "compiled" and kernel.compiled is None:
        pytest.skip("the compiled kernel is not installed: there was no C compiler")
    monkeypatch.setenv(kernel.ENVIRONMENT, request.param)
    assert kernel.kernel_name() == request.param
    return str(request.param)
