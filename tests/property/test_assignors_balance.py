"""Both assignors, over random groups: everything is handed out once, evenly, and hardly anything moves."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.coordinator.group.assignors import ASSIGNORS, Assignment, GroupSpec, MemberSpec

TOPICS = [bytes([number]) * 16 for number in range(1, 7)]
both = pytest.mark.parametrize("name", sorted(ASSIGNORS))


@st.composite
def groups(draw: st.DrawFn, *, same_topics: bool = False) -> GroupSpec:
    """A group with any history: members may claim partitions that are gone, unread, or somebody else's."""
    counts = draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9), max_size=6))
    subscriptions = st.frozensets(st.sampled_from(TOPICS), max_size=6)
    shared = draw(subscriptions)
    previous = st.dictionaries(
        st.sampled_from(TOPICS), st.frozensets(st.integers(0, 11), min_size=1, max_size=9), max_size=4
    )
    members = {
        f"member-{number}": MemberSpec(
            shared if same_topics else draw(subscriptions),
            draw(previous),
            draw(st.sampled_from([None, f"instance-{number}"])),
        )
        for number in range(draw(st.integers(1, 7)))
    }
    return GroupSpec(members, counts)


def load(assignment: Assignment) -> int:
    return sum(len(indices) for indices in assignment.values())


def after_assigning(spec: GroupSpec, name: str) -> GroupSpec:
    """The same group, with what the assignor answered as everybody's previous assignment."""
    answer = ASSIGNORS[name](spec)
    members = {
        member_id: MemberSpec(member.topic_ids, answer[member_id], member.instance_id)
        for member_id, member in spec.members.items()
    }
    return GroupSpec(members, spec.partition_counts)


@both
@given(spec=groups())
def test_every_partition_goes_to_exactly_one_reader_of_its_topic(name: str, spec: GroupSpec) -> None:
    answer = ASSIGNORS[name](spec)
    assert answer.keys() == spec.members.keys()
    given_out = Counter(
        (topic_id, index)
        for assignment in answer.values()
        for topic_id, indices in assignment.items()
        for index in indices
    )
    read = {topic_id for member in spec.members.values() for topic_id in member.topic_ids}
    wanted = {(t, i) for t, count in spec.partition_counts.items() if t in read for i in range(count)}
    assert given_out == Counter(wanted)
    for member_id, assignment in answer.items():
        assert assignment.keys() <= spec.members[member_id].topic_ids
        assert all(assignment.values())


@both
@given(spec=groups())
def test_the_answer_depends_on_nothing_but_the_group(name: str, spec: GroupSpec) -> None:
    shuffled = GroupSpec(
        dict(reversed(list(spec.members.items()))), dict(reversed(list(spec.partition_counts.items())))
    )
    assert ASSIGNORS[name](shuffled) == ASSIGNORS[name](spec)


@both
@given(spec=groups())
def test_nothing_moves_when_nothing_changed(name: str, spec: GroupSpec) -> None:
    settled = after_assigning(spec, name)
    answer = ASSIGNORS[name](settled)
    assert answer == {member_id: member.previous for member_id, member in settled.members.items()}


@given(spec=groups(same_topics=True))
def test_uniform_is_even_within_one_when_all_read_the_same(spec: GroupSpec) -> None:
    loads = [load(assignment) for assignment in ASSIGNORS["uniform"](spec).values()]
    assert max(loads) - min(loads) <= 1


@given(spec=groups(same_topics=True), newcomers=st.integers(0, 4), leavers=st.integers(0, 4))
def test_uniform_moves_no_more_than_evenness_requires(spec: GroupSpec, newcomers: int, leavers: int) -> None:
    settled = after_assigning(spec, "uniform")
    topic_ids = next(iter(spec.members.values())).topic_ids
    staying = dict(list(settled.members.items())[min(leavers, len(settled.members) - 1) :])
    members = staying | {f"new-{number}": MemberSpec(topic_ids) for number in range(newcomers)}
    answer = ASSIGNORS["uniform"](GroupSpec(members, spec.partition_counts))
    lost = sum(
        len(indices - answer[member_id].get(topic_id, frozenset()))
        for member_id, member in members.items()
        for topic_id, indices in member.previous.items()
    )
    # The fewest moves that any even assignment needs: what exceeds the shares, the larger shares going to
    # those who hold most.
    quota, extra = divmod(sum(load(assignment) for assignment in answer.values()), len(members))
    held = sorted((load(member.previous) for member in members.values()), reverse=True)
    shares = [quota + 1] * extra + [quota] * (len(members) - extra)
    assert lost == sum(max(0, had - share) for had, share in zip(held, shares, strict=True))


@given(spec=groups())
def test_uniform_leaves_no_single_move_that_would_make_it_more_even(spec: GroupSpec) -> None:
    answer = ASSIGNORS["uniform"](spec)
    loads = {member_id: load(assignment) for member_id, assignment in answer.items()}
    for owner, assignment in answer.items():
        for topic_id in assignment:
            for member_id, member in spec.members.items():
                if topic_id in member.topic_ids:
                    assert loads[owner] - loads[member_id] <= 1


@given(spec=groups())
def test_range_shares_each_topic_evenly_among_its_readers(spec: GroupSpec) -> None:
    answer = ASSIGNORS["range"](spec)
    for topic_id in spec.partition_counts:
        readers = [member_id for member_id, member in spec.members.items() if topic_id in member.topic_ids]
        shares = [len(answer[member_id].get(topic_id, ())) for member_id in readers]
        assert not shares or max(shares) - min(shares) <= 1


@given(spec=groups(same_topics=True))
def test_range_keeps_co_partitioned_topics_together(spec: GroupSpec) -> None:
    for assignment in ASSIGNORS["range"](spec).values():
        by_count: dict[int, set[frozenset[int]]] = {}
        for topic_id in next(iter(spec.members.values())).topic_ids & spec.partition_counts.keys():
            count = spec.partition_counts[topic_id]
            by_count.setdefault(count, set()).add(assignment.get(topic_id, frozenset()))
        assert all(len(shares) == 1 for shares in by_count.values())


def test_a_fresh_range_assignment_is_made_of_consecutive_ranges() -> None:
    topic_ids = frozenset(TOPICS[:2])
    spec = GroupSpec({name: MemberSpec(topic_ids) for name in "abc"}, dict.fromkeys(TOPICS[:2], 7))
    shares = {"a": frozenset({0, 1, 2}), "b": frozenset({3, 4}), "c": frozenset({5, 6})}
    assert ASSIGNORS["range"](spec) == {name: dict.fromkeys(TOPICS[:2], shares[name]) for name in "abc"}


def test_a_static_member_keeps_its_place_under_a_new_member_id() -> None:
    topic_ids = frozenset(TOPICS[:1])

    def spec(first: str, second: str) -> GroupSpec:
        members = {
            first: MemberSpec(topic_ids, instance_id="i1"),
            second: MemberSpec(topic_ids, instance_id="i2"),
        }
        return GroupSpec(members, {TOPICS[0]: 4})

    assert ASSIGNORS["range"](spec("z", "a"))["z"] == {TOPICS[0]: frozenset({0, 1})}
    assert ASSIGNORS["range"](spec("a", "z"))["a"] == {TOPICS[0]: frozenset({0, 1})}


@both
@pytest.mark.parametrize(("topics", "partitions"), [(1, 10_000), (100, 100), (1000, 10)])
def test_a_thousand_members_and_ten_thousand_partitions_are_quick(
    name: str, topics: int, partitions: int
) -> None:
    topic_ids = frozenset(number.to_bytes(16, "big") for number in range(topics))
    members = {f"member-{number}": MemberSpec(topic_ids) for number in range(1000)}
    spec = GroupSpec(members, dict.fromkeys(topic_ids, partitions))
    assert sum(load(assignment) for assignment in ASSIGNORS[name](spec).values()) == 10_000
