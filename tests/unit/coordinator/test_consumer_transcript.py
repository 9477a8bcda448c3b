"""A conversation that Apache Kafka 4.3.1 and this broker hold in the same words.

The transcript comes from a Kafka node: topic `a` has six partitions, `b` four, the assignment interval is 0.
Each line is a heartbeat and its answer:

    member epoch [reads=] [has=] [as=instance] [by=assignor] [full]  ->  epoch [assignment] | error
"""

from typing import Any

from consumer_world import World, assignment

TRANSCRIPT = """
    m1 0 reads=a                    -> 2 a012345
    m1 2                            -> 2
    m2 0 reads=a                    -> 3 -
    m2 3                            -> 3
    m1 2                            -> 2 a012
    m1 2                            -> 2
    m1 2 has=a012345                -> 2
    m1 2 has=a012                   -> 3
    m1 3 has=a012                   -> 3
    m1 2 has=a012                   -> 3
    m1 2 has=a0123                  -> error 110
    m1 2                            -> error 110
    m1 9                            -> error 110
    m2 3                            -> 3 a345
    m2 3 reads=a,b                  -> 3 a3
    m2 3                            -> 3
    m1 3                            -> 4
    m2 3 has=a3                     -> 4 a3,b0123
    m1 4                            -> 4 a01245
    m2 4 reads=b                    -> 4 b0123
    m2 4 has=b0123                  -> 5
    m1 4                            -> 5 a012345
    m1 5 reads=a has=a012 full      -> 5 a012345
    m3 0 reads=a,b                  -> 6 -
    m1 5                            -> 5 a012
    m2 5                            -> 6
    m1 5 has=a012                   -> 6
    m2 5 has=b01                    -> 6
    m3 6                            -> 6 a345
    m3 6                            -> 6
    m3 -1                           -> -1
    m3 -1                           -> error 25
    m1 6                            -> 7 a012345
    m2 6                            -> 7
    m2 7                            -> 7
    m2 0 reads=a                    -> 8 -
    m1 0 reads=a                    -> 8 a012
    m2 -1                           -> -1
    m1 -1                           -> -1
    m1 7                            -> error 25
    s1 0 reads=a as=i1              -> 11 a012345
    x 0 reads=a as=i1               -> error 111
    s2 0 reads=a as=i2              -> 12 -
    s1 11 as=i1                     -> 11 a012
    s1 11 has=a012 as=i1            -> 12
    s2 12 as=i2                     -> 12 a345
    x 12 as=i1                      -> error 82
    x 12 as=i3                      -> error 25
    x -1 as=i3                      -> error 25
    x -2 as=i1                      -> error 82
    s1 -2 as=i1                     -> -2
    s1 12 as=i1                     -> error 110
    s2 12 as=i2                     -> 12
    s3 0 reads=a as=i1              -> 12 a012
    s1 12 as=i1                     -> error 82
    s3 12 as=i1                     -> 12
    s2 12 as=i2                     -> 12
    s3 -2 as=i1                     -> -2
    s3 0 reads=a,b as=i1            -> 13 a0,b0123
    s2 12 as=i2                     -> 13 a12345
    s2 12 as=i2 by=range            -> error 110
    s2 13 as=i2 by=range            -> 13
    s3 13 as=i1 by=range            -> 13
    s3 -1 as=i1                     -> -1
    s2 13 as=i2                     -> 14 a012345
    s2 -1                           -> -1
    s2 14                           -> error 25
"""


def parse(text: str) -> dict[str, list[int]]:
    """`a01,b2` is partitions 0 and 1 of a, 2 of b; `-` is none."""
    return {part[0]: [int(digit) for digit in part[1:]] for part in text.split(",") if part != "-"}


def test_every_answer_is_the_one_that_kafka_gives() -> None:
    world = World({"a": 6, "b": 4}, group_consumer_assignment_interval_ms=0)
    for line in TRANSCRIPT.strip().splitlines():
        said, _, answer = line.partition("->")
        member_id, epoch, *words = said.split()
        fields: dict[str, Any] = {}
        for word in words:
            name, _, value = word.partition("=")
            if name == "reads":
                fields["topics"] = value.split(",")
            elif name == "has":
                fields["owned"] = parse(value)
            elif name == "as":
                fields["instance_id"] = value
            elif name == "by":
                fields["server_assignor"] = value
            else:
                fields["rebalance_timeout_ms"] = 30_000
        world.advance(1)
        response = world.heartbeat(member_id, int(epoch), **fields)
        if response.error_code:
            got = f"error {int(response.error_code)}"
        else:
            given = assignment(response)
            names = world.image.topic_names
            shares = sorted(
                names[topic] + "".join(map(str, indices)) for topic, indices in (given or {}).items()
            )
            shown = [",".join(shares) or "-"] if given is not None else []
            got = " ".join([str(response.member_epoch), *shown])
        assert got == answer.strip(), line
