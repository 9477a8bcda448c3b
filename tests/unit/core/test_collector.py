"""Full collections of garbage pause while a thread makes very many objects, and not for ever."""

import gc

from moldau.common.core.collector import FullCollections, full_collections
from moldau.common.core.slow_lane import SlowLane


def test_full_collections_pause_until_the_last_user_has_left() -> None:
    usual = gc.get_threshold()
    collections = FullCollections()
    with collections.paused():
        with collections.paused():
            assert gc.get_threshold()[:2] == usual[:2]
            assert gc.get_threshold()[2] > 1_000_000
        assert gc.get_threshold() != usual
    assert gc.get_threshold() == usual


def test_who_comes_late_does_not_make_a_long_pause_longer() -> None:
    usual, now = gc.get_threshold(), [0.0]
    collections = FullCollections(lambda: now[0])
    first, late = collections.paused(), collections.paused()
    with first:
        now[0] = 11.0
        late.__enter__()
    assert gc.get_threshold() == usual
    late.__exit__(None, None, None)
    assert gc.get_threshold() == usual


def test_short_pauses_without_a_full_collection_between_them_end_too() -> None:
    usual, now = gc.get_threshold(), [0.0]
    collections = FullCollections(lambda: now[0])
    gc.disable()
    try:
        for is_paused in (True, True, True, False, False):
            with collections.paused():
                now[0] += 4.0
                assert (gc.get_threshold() != usual) is is_paused
        gc.collect()
        with collections.paused():
            assert gc.get_threshold() != usual
    finally:
        gc.enable()
    assert gc.get_threshold() == usual


def test_an_error_ends_the_pause() -> None:
    usual = gc.get_threshold()
    try:
        with FullCollections().paused():
            raise ValueError
    except ValueError:
        pass
    assert gc.get_threshold() == usual


def test_pauses_that_overlap_leave_the_usual_threshold() -> None:
    # A broker's slow lane and a service's parser, in one process: the second to begin ends last.
    usual = gc.get_threshold()
    first, second = SlowLane().paused_full_collections(), full_collections.paused()
    third = SlowLane().paused_full_collections()
    for each in (first, second, third):
        each.__enter__()
    for each in (first, second, third):
        each.__exit__(None, None, None)
    assert gc.get_threshold() == usual
