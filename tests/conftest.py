"""What tests of several folders share."""

import pytest
from hypothesis import HealthCheck, settings

from moldau.log.compaction import kernel

# A busy machine is slow, not wrong: by itself Hypothesis fails an example that takes 200 ms.
settings.register_profile("moldau", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("moldau")


@pytest.fixture(params=("python", "compiled"))
def compaction_kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Compaction with each kernel in turn, also in processes that the test starts."""
    if request.param == "compiled" and kernel.compiled is None:
        pytest.skip("the compiled kernel is not installed: there was no C compiler")
    monkeypatch.setenv(kernel.ENVIRONMENT, request.param)
    assert kernel.kernel_name() == request.param
    return str(request.param)
