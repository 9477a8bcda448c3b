"""What tests of several folders share."""

import pytest

from moldau.log.compaction import kernel


@pytest.fixture(params=("python", "compiled"))
def compaction_kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Compaction with each kernel in turn, also in processes that the test starts."""
    if request.param == "compiled" and kernel.compiled is None:
        pytest.skip("the compiled kernel is not installed: there was no C compiler")
    monkeypatch.setenv(kernel.ENVIRONMENT, request.param)
    assert kernel.kernel_name() == request.param
    return str(request.param)
