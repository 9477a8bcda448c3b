"""The executor for code that may never return."""

import threading

from kept import kept

from moldau.common.core.workers import DaemonExecutor


def test_it_runs_one_piece_after_the_other_and_hands_errors_over():
    executor = DaemonExecutor("test")
    futures = [executor.submit(lambda n: 10 // n, n) for n in (5, 0, 2)]
    assert futures[0].result(10) == 2
    assert isinstance(futures[1].exception(10), ZeroDivisionError)
    assert futures[2].result(10) == 5
    executor.shutdown()


def test_what_hangs_holds_up_neither_shutdown_nor_cancelled_pieces():
    executor, go_on, begun = DaemonExecutor("test"), threading.Event(), threading.Event()

    def hang():
        begun.set()
        go_on.wait()

    hanging = executor.submit(hang)
    assert begun.wait(10)
    ran = []
    before = kept(executor)
    waiting = [executor.submit(ran.append, n) for n in range(100)]
    assert all(future.cancel() for future in waiting)
    assert kept(executor) == before
    executor.shutdown(wait=True)
    assert not hanging.done()
    go_on.set()
    assert hanging.result(10) is None
    executor._thread.join(10)
    assert not executor._thread.is_alive()
    assert ran == []
