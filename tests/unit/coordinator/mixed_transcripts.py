"""Conversations of members of both protocols with one group, each line with its answer (mixed_script.py).

They run against the coordinator in memory (test_mixed_transcripts.py) and against a broker on the wire,
Apache Kafka too (tests/clients/test_mixed_groups_wire.py). Where Kafka 4.3.1 answers otherwise, its answer
stands behind a bar:

    4 leads A                the record of a downgrade names the next generation, so that a crash cannot hide
      kafka: 3 leads A       the rebalance that is due (downgrade.py); the one after it is one higher
    REBALANCE_IN_PROGRESS    to a SyncGroup that names the protocol which the classic group had agreed on: its
      kafka: INCONSISTENT_   sender is to join again, not to fail (migration/classic_members.py)
    UNKNOWN_MEMBER_ID        to a member that was removed before the group became classic: it may join again,
      kafka: GROUP_ID_NOT_   where Kafka's answer ends it (consumer/service.py)
    3 -                      what A still consumes, though the rebalance has taken its assignment back, is its
      kafka: 3 a012          own (migration/upgrade.py)
    UNKNOWN_MEMBER_ID        to a removed member with what others have (migration/classic_members.py)
      kafka: 5
    PreparingRebalance       another member has not got what it waits for (migration/classic_members.py)
      kafka: Stable
    REBALANCE_IN_PROGRESS    a target is due and only classic members are left, whom Kafka does not tell
      kafka: ok              (migration/classic_members.py)
    3 -                      A has not given up what it is to give up, so nobody else gets it (downgrade.py)
      kafka: 3 a6789ab
    2 leads B,C              somebody has to watch the topics (migration/classic_members.py)
      kafka: 2
    kafka: UNKNOWN_SERVER_   to a subscription that it cannot read, and to who joins a classic group before
                             its first generation
"""

from typing import Any, NamedTuple


class Transcript(NamedTuple):
    """`settings` are the coordinator's, besides those of the script's ports."""

    name: str
    settings: dict[str, Any]
    lines: str


TRANSCRIPTS = (
    Transcript(
        "there and back",
        {},
        """
        A join                               -> 1 leads A
        A sync A=a0123456789ab               -> a0123456789ab
        group                                -> classic Stable 1 members
        m 0                                  -> 2 -
        group                                -> consumer Reconciling epoch 2 1 classic 1 consumer
        m 2                                  -> 2
        A beat                               -> REBALANCE_IN_PROGRESS
        A commit a0=5                        -> ok
        A join has=a0123456789ab             -> 1
        A sync                               -> a012345
        A beat                               -> REBALANCE_IN_PROGRESS
        A join has=a012345                   -> 2
        A commit a0=6 in=1                   -> ok
        A commit a6=6 in=1                   -> ILLEGAL_GENERATION
        A sync                               -> a012345
        A beat                               -> ok
        m 2                                  -> 2 a6789ab
        A beat                               -> ok
        group                                -> consumer Stable epoch 2 1 classic 1 consumer
        restart                              -> ok
        A beat                               -> ok
        m 2                                  -> 2
        m -1                                 -> -1
        group                                -> classic PreparingRebalance 1 members
        A beat                               -> REBALANCE_IN_PROGRESS
        A join has=a012345                   -> 4 leads A | kafka: 3 leads A
        A sync A=a0123456789ab               -> a0123456789ab
        A beat                               -> ok
        group                                -> classic Stable 1 members
        """,
    ),
    Transcript(
        "eager members",
        {},
        """
        A join by=range+roundrobin           -> 1 leads A
        A sync A=a0123456789ab               -> a0123456789ab
        B join by=roundrobin                 -> ...
        A beat                               -> REBALANCE_IN_PROGRESS
        A join by=range+roundrobin           -> 2 leads A,B; B: 2
        A sync A=a012345 B=a6789ab           -> a012345
        B sync                               -> a6789ab
        m 0                                  -> 3 -
        A beat                               -> REBALANCE_IN_PROGRESS
        A sync                               -> REBALANCE_IN_PROGRESS | kafka: INCONSISTENT_GROUP_PROTOCOL
        A join by=range+roundrobin           -> 3
        B beat                               -> REBALANCE_IN_PROGRESS
        B join by=roundrobin                 -> 3
        m 3                                  -> 3 a45ab
        A sync                               -> a0123
        B sync                               -> a6789
        group                                -> consumer Stable epoch 3 2 classic 1 consumer
        C join by=sticky                     -> INCONSISTENT_GROUP_PROTOCOL
        C join by=sticky+roundrobin          -> 4
        A beat                               -> REBALANCE_IN_PROGRESS
        A join by=range+roundrobin           -> 4
        B join by=roundrobin                 -> 4
        A sync                               -> a012
        B sync                               -> a678
        m 3                                  -> 3 a45a
        m 3 has=ab                           -> 3
        C beat                               -> ok
        C join by=sticky+roundrobin          -> 4
        C sync                               -> a39
        m 4                                  -> FENCED_MEMBER_EPOCH
        A leave                              -> ok
        B leave                              -> ok
        C leave                              -> ok
        group                                -> consumer Assigning epoch 7 0 classic 1 consumer
        m 4                                  -> FENCED_MEMBER_EPOCH
        m 7                                  -> FENCED_MEMBER_EPOCH
        group                                -> consumer Assigning epoch 7 0 classic 1 consumer
        """,
    ),
    Transcript(
        "upgrade while members join",
        {},
        """
        A join                               -> 1 leads A
        A sync A=a0123456789ab               -> a0123456789ab
        B join                               -> ...
        group                                -> classic PreparingRebalance 2 members
        m 0                                  -> 2 -; B: REBALANCE_IN_PROGRESS
        group                                -> consumer Reconciling epoch 2 2 classic 1 consumer
        B join                               -> 2
        A beat                               -> REBALANCE_IN_PROGRESS
        A join has=a0123456789ab             -> 1
        A join has=a0123                     -> 2
        B sync                               -> -
        B beat                               -> REBALANCE_IN_PROGRESS
        B join                               -> 2
        B sync                               -> a579b
        m 2                                  -> 2 a468a
        group                                -> consumer Stable epoch 2 2 classic 1 consumer
        """,
    ),
    Transcript(
        "upgrade while the leader assigns",
        {},
        """
        A join                               -> 1 leads A
        A sync A=a0123456789ab               -> a0123456789ab
        B join                               -> ...
        A join                               -> 2 leads A,B; B: 2
        B sync                               -> ...
        group                                -> classic CompletingRebalance 2 members
        m 0                                  -> 3 -; B: REBALANCE_IN_PROGRESS
        group                                -> consumer Reconciling epoch 3 2 classic 1 consumer
        A sync A=a012345 B=a6789ab           -> REBALANCE_IN_PROGRESS
        A join                               -> 3
        B beat                               -> REBALANCE_IN_PROGRESS
        B join                               -> 3
        A sync                               -> a0123
        B sync                               -> a579b
        m 3                                  -> 3 a468a
        group                                -> consumer Stable epoch 3 2 classic 1 consumer
        """,
    ),
    Transcript(
        "upgrade before the first generation",
        {"group_initial_rebalance_delay_ms": 3000},
        """
        A join                               -> ...
        group                                -> classic PreparingRebalance 1 members
        m 0 -> 2 a13579b; A: REBALANCE_IN_PROGRESS | kafka: UNKNOWN_SERVER_ERROR; A: REBALANCE_IN_PROGRESS
        A join                               -> 2 | kafka: 1 leads A
        group -> consumer Stable epoch 2 1 classic 1 consumer | kafka: classic CompletingRebalance 1 members
        A sync                               -> a02468a | kafka: -
        m 2                                  -> 2 | kafka: GROUP_ID_NOT_FOUND
        """,
    ),
    Transcript(
        "upgrade while a member is about to come",
        {},
        """
        A join session=10000                 -> 1 leads A
        A leave                              -> ok
        group                                -> classic Empty 0 members
        m 0                                  -> 2 a0123456789ab
        A join                               -> 3
        m 2                                  -> 2 a012345
        m 2 has=a012345                      -> 3
        A beat                               -> REBALANCE_IN_PROGRESS
        A join                               -> 3
        A sync                               -> a6789ab
        group                                -> consumer Stable epoch 3 1 classic 1 consumer
        """,
    ),
    Transcript(
        "classic member joins a consumer group",
        {},
        """
        m 0                                  -> 2 a0123456789ab
        A join                               -> 3
        A sync                               -> -
        A beat                               -> ok
        m 2                                  -> 2 a012345
        A beat                               -> ok
        m 2 has=a012345                      -> 3
        A beat                               -> REBALANCE_IN_PROGRESS
        A join                               -> 3
        A sync                               -> a6789ab
        A beat                               -> ok
        B join                               -> 4
        A beat                               -> REBALANCE_IN_PROGRESS
        A join has=a6789ab                   -> 3
        A beat                               -> REBALANCE_IN_PROGRESS
        A join has=a6789                     -> 4
        B beat                               -> ok
        m 3                                  -> 3 a0123
        m 3 has=a0123                        -> 4
        B beat                               -> REBALANCE_IN_PROGRESS
        B join                               -> 4
        B sync                               -> a45ab
        group                                -> consumer Stable epoch 4 2 classic 1 consumer
        m -1                                 -> -1
        group                                -> classic PreparingRebalance 2 members
        A beat                               -> REBALANCE_IN_PROGRESS
        A join has=a6789                     -> ...
        B join has=a45ab                     -> 6; A: 6 leads A,B | kafka: 5 leads A,B; A: 5
        group                                -> classic CompletingRebalance 2 members
        """,
    ),
    Transcript(
        "static member changes to consumer and back",
        {},
        """
        A join as=i1                         -> 1 leads A
        B join as=i2                         -> ...
        A join as=i1                         -> 2 leads A,B; B: 2
        A sync A=a012345 B=a6789ab           -> a012345
        B sync                               -> a6789ab
        s 0 as=i1                            -> 2 a012345
        group                                -> consumer Stable epoch 2 1 classic 1 consumer
        A beat                               -> FENCED_INSTANCE_ID
        A join                               -> FENCED_INSTANCE_ID
        B beat                               -> ok
        s 2 as=i1                            -> 2
        B join                               -> 2
        B sync                               -> a6789ab
        C join as=i1                         -> 2 leads B,C | kafka: 2
        group                                -> classic Stable 2 members
        C sync                               -> a012345
        B beat                               -> ok
        C beat                               -> ok
        s 2 as=i1                            -> UNKNOWN_MEMBER_ID | kafka: GROUP_ID_NOT_FOUND
        group                                -> classic Stable 2 members
        """,
    ),
    Transcript(
        "static member takes over with another subscription",
        {},
        """
        s 0 as=i1                            -> 2 a0123456789ab
        B join as=i2                         -> 3
        s 3 as=i1                            -> FENCED_MEMBER_EPOCH
        s 3 as=i1 has=a012345                -> FENCED_MEMBER_EPOCH
        B beat                               -> ok
        B join                               -> 3
        B sync                               -> -
        C join as=i1 reads=a,b               -> 0
        group                                -> classic PreparingRebalance 2 members
        C sync                               -> ILLEGAL_GENERATION
        B beat                               -> REBALANCE_IN_PROGRESS
        C join reads=a,b                     -> ...
        B join                               -> 5 leads B,C; C: 5 | kafka: 4 leads B,C; C: 4
        group                                -> classic CompletingRebalance 2 members
        """,
    ),
    Transcript(
        "an administrator removes the consumer member",
        {},
        """
        A join                               -> 1 leads A
        A sync A=a0123456789ab               -> a0123456789ab
        m 0                                  -> 2 -
        X leave for=m                        -> ok
        X leave for=nobody                   -> UNKNOWN_MEMBER_ID
        group                                -> classic PreparingRebalance 1 members
        m 2                                  -> UNKNOWN_MEMBER_ID | kafka: GROUP_ID_NOT_FOUND
        m 0                                  -> 3 - | kafka: 3 a6789ab
        group                                -> consumer Reconciling epoch 3 1 classic 1 consumer
        """,
    ),
    Transcript(
        "policy upgrade",
        {"group_consumer_migration_policy": "Upgrade"},
        """
        A join                               -> 1 leads A
        A sync A=a0123456789ab               -> a0123456789ab
        m 0                                  -> 2 -
        A join                               -> 2
        A sync                               -> a012345
        m -1                                 -> -1
        group                                -> consumer Assigning epoch 3 1 classic 0 consumer
        A beat                               -> REBALANCE_IN_PROGRESS | kafka: ok
        A join                               -> 3
        A sync                               -> a0123456789ab
        A beat                               -> ok
        group                                -> consumer Stable epoch 3 1 classic 0 consumer
        A leave                              -> ok
        group                                -> consumer Empty epoch 4 0 classic 0 consumer
        A join new                           -> 1 leads A
        group                                -> classic CompletingRebalance 1 members
        """,
    ),
    Transcript(
        "policy downgrade",
        {"group_consumer_migration_policy": "downgrade"},
        """
        A join                               -> 1 leads A
        A sync A=a0123456789ab               -> a0123456789ab
        m 0                                  -> GROUP_ID_NOT_FOUND
        A beat                               -> ok
        A leave                              -> ok
        m 0                                  -> 2 a0123456789ab
        A join new                           -> 3
        A sync                               -> -
        m -1                                 -> -1
        group                                -> classic PreparingRebalance 1 members
        """,
    ),
    Transcript(
        "policy disabled",
        {"group_consumer_migration_policy": "disabled"},
        """
        A join                               -> 1 leads A
        A sync A=a0123456789ab               -> a0123456789ab
        m 0                                  -> GROUP_ID_NOT_FOUND
        A beat                               -> ok
        A leave                              -> ok
        m 0                                  -> 2 a0123456789ab
        B join                               -> INCONSISTENT_GROUP_PROTOCOL
        group                                -> consumer Stable epoch 2 0 classic 1 consumer
        """,
    ),
    Transcript(
        "groups that cannot be upgraded",
        {"group_consumer_max_size": 1},
        """
        A join type=connect                  -> 1 leads A
        m 0                                  -> GROUP_ID_NOT_FOUND
        A leave                              -> ok
        A join new broken                    -> 3 leads A
        m 0                                  -> GROUP_ID_NOT_FOUND
        A leave                              -> ok
        A join new                           -> 5 leads A
        A sync A=a0123456789ab               -> a0123456789ab
        m 0                                  -> GROUP_MAX_SIZE_REACHED
        B join                               -> ...
        A join                               -> 6 leads A,B; B: 6
        A sync                               -> -
        B sync                               -> -
        m 0                                  -> GROUP_ID_NOT_FOUND
        group                                -> classic Stable 2 members
        """,
    ),
    Transcript(
        "too many for a classic group",
        {"group_max_size": 1},
        """
        m 0                                  -> 2 a0123456789ab
        A join                               -> 3
        B join                               -> 4
        m -1                                 -> -1
        group                                -> consumer Assigning epoch 5 2 classic 0 consumer
        B leave                              -> ok
        group                                -> classic PreparingRebalance 1 members
        """,
    ),
    Transcript(
        "malformed subscriptions",
        {},
        """
        m 0                                  -> 2 a0123456789ab
        A join broken                        -> INCONSISTENT_GROUP_PROTOCOL | kafka: UNKNOWN_SERVER_ERROR
        A join type=connect                  -> INCONSISTENT_GROUP_PROTOCOL
        m 2                                  -> 2
        """,
    ),
    Transcript(
        "the last consumer member expires",
        {"group_consumer_session_timeout_ms": 8000},
        """
        A join                               -> 1 leads A
        A sync A=a0123456789ab               -> a0123456789ab
        m 0                                  -> 2 -
        A beat                               -> REBALANCE_IN_PROGRESS
        A join                               -> 2
        A sync                               -> a012345
        wait 5000                            -> ok
        A beat                               -> ok
        wait 5000                            -> ok
        group                                -> classic PreparingRebalance 1 members
        A beat                               -> REBALANCE_IN_PROGRESS
        m 2                                  -> UNKNOWN_MEMBER_ID | kafka: GROUP_ID_NOT_FOUND
        A join                               -> 4 leads A | kafka: 3 leads A
        A sync A=a0123456789ab               -> a0123456789ab
        A beat                               -> ok
        m 0                                  -> 5 - | kafka: 4 -
        """,
    ),
    Transcript(
        "classic members expire",
        {"group_consumer_session_timeout_ms": 45000},
        """
        A join                               -> 1 leads A
        A sync A=a0123456789ab               -> a0123456789ab
        B join                               -> ...
        A join                               -> 2 leads A,B; B: 2
        A sync A=a012345 B=a6789ab           -> a012345
        B sync                               -> a6789ab
        m 0                                  -> 3 -
        A join                               -> 3
        A sync                               -> a0123
        wait 6000                            -> ok
        A beat                               -> ok
        m 3                                  -> 3 a45
        wait 6000                            -> ok
        A beat                               -> ok
        m 3                                  -> 4 a4579ab
        group                                -> consumer Reconciling epoch 4 1 classic 1 consumer
        wait 6000                            -> ok
        A beat                               -> REBALANCE_IN_PROGRESS
        m 3                                  -> FENCED_MEMBER_EPOCH
        wait 11000                           -> ok
        group                                -> consumer Assigning epoch 5 0 classic 1 consumer
        """,
    ),
    Transcript(
        "a member that does not join again",
        {"group_consumer_session_timeout_ms": 45000},
        """
        A join                               -> 1 leads A
        A sync A=a0123456789ab               -> a0123456789ab
        m 0                                  -> 2 -
        A beat                               -> REBALANCE_IN_PROGRESS
        wait 8000                            -> ok
        A beat                               -> REBALANCE_IN_PROGRESS
        wait 8000                            -> ok
        A beat                               -> REBALANCE_IN_PROGRESS
        wait 8000                            -> ok
        A beat                               -> UNKNOWN_MEMBER_ID
        group                                -> consumer Assigning epoch 3 0 classic 1 consumer
        m 2                                  -> 3 a0123456789ab
        m 3                                  -> 3
        """,
    ),
    Transcript(
        "a member that does not fetch its assignment",
        {"group_consumer_session_timeout_ms": 45000},
        """
        m 0                                  -> 2 a0123456789ab
        A join                               -> 3
        wait 8000                            -> ok
        A beat                               -> ok
        wait 8000                            -> ok
        A beat                               -> ok
        wait 8000                            -> ok
        A beat                               -> UNKNOWN_MEMBER_ID
        group                                -> consumer Assigning epoch 4 0 classic 1 consumer
        """,
    ),
    Transcript(
        "what a cooperative member consumes in a rebalance",
        {},
        """
        A join                               -> 1 leads A
        A sync A=a0123456789ab               -> a0123456789ab
        B join                               -> ...
        A join has=a0123456789ab             -> 2 leads A,B; B: 2
        C join                               -> ...
        m 0 -> 3 -; C: REBALANCE_IN_PROGRESS | kafka: 3 a012; C: REBALANCE_IN_PROGRESS
        A sync A=a012345 B=-                 -> REBALANCE_IN_PROGRESS
        A join has=a0123456789ab             -> 2 | kafka: 3
        """,
    ),
    Transcript(
        "a removed member brings partitions along",
        {},
        """
        m 0                                  -> 2 a0123456789ab
        A join                               -> 3
        m 2                                  -> 2 a012345
        m 2 has=a012345                      -> 3
        A join                               -> 3
        A sync                               -> a6789ab
        X leave for=A                        -> ok
        m 3                                  -> 4 a0123456789ab
        A join has=a6789ab                   -> UNKNOWN_MEMBER_ID | kafka: 5
        """,
    ),
    Transcript(
        "static member takes over while another waits for its share",
        {},
        """
        s 0 as=i1                            -> 2 a0123456789ab
        B join as=i2                         -> 3
        B sync                               -> -
        C join as=i1                         -> 3
        group -> classic PreparingRebalance 2 members | kafka: classic Stable 2 members
        B beat                               -> REBALANCE_IN_PROGRESS | kafka: ok
        """,
    ),
)
