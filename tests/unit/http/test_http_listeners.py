"""Addresses as people write them."""

import socket

import pytest

from moldau.common.settings.rows import SettingError
from moldau.services.http.server import _bound_unsent
from moldau.services.http.settings import Listener, listeners_of


@pytest.mark.parametrize(
    ("value", "listener"),
    [
        ("http://127.0.0.1:8081", Listener("http", "127.0.0.1", 8081)),
        ("HTTPS://0.0.0.0:8081/", Listener("https", "0.0.0.0", 8081)),
        ("[::1]:8081", Listener("http", "::1", 8081)),
        ("8081", Listener("http", "127.0.0.1", 8081)),
        (":8081", Listener("http", "", 8081)),
    ],
)
def test_an_address(value: str, listener: Listener) -> None:
    """A port alone is one of the loopback interface: nobody else is let in by what was left out."""
    assert listeners_of((value,), 80) == (listener,)


@pytest.mark.parametrize("value", ["localhost", "http://localhost", "ftp://a:1", "a:99999", "a:"])
def test_what_is_no_address(value: str) -> None:
    with pytest.raises(SettingError):
        listeners_of((value,), 80)


class OldKernel:
    """A socket of a kernel that has not all options."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def setsockopt(self, level: int, option: int, value: int) -> None:
        self.asked.append(option)
        raise OSError(92, "Protocol not available")


def test_a_kernel_without_a_bound_of_what_is_unsent_serves_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "TCP_NOTSENT_LOWAT", 25, raising=False)
    old = OldKernel()
    _bound_unsent(old)  # type: ignore[arg-type]
    assert old.asked == [25]
