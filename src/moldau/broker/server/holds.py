"""What keeps a connection from handling its next frame, and whether the memory of a frame is counted.

`Connection.held` is the sum of these. While it is 0, frames are handled as they come.

    bit         holds because                                             ended by
    RESPONSES   the last response waits for something slow, or too        slot filled (`_unblock`)
                many responses, or too many bytes of them, wait
    FOLLOWERS   its appends beyond its share wait for followers           end of the wait, slot filled
    TURN        it has handled many requests at once                      its turn (turns.py)
    MUTED       it is over a quota (KIP-219)                              the time, or a new quota
    UNREAD      the client does not take what it was sent                 the transport: resume_writing
    HANDLING    frames are being handled further up in the stack          the end of that round
    IGNORED     nothing that the client still sends counts                never: it is closed later
    CLOSED      the connection was closed from here                       never
    LOST        its transport has ended (with CLOSED)                     never

The greatest bits stand for the end: `held >= CLOSED` is a closed connection, `held >= IGNORED` one that is
not read from any more. (Comparisons cost less than masks, and these are made for every request.)

The memory of a frame (request_memory.py); while it is AWAITED nothing is read:

    UNCOUNTED ──> a frame, or what waits behind a response, is large ──> GRANTED or AWAITED
    AWAITED ──> memory_granted ──> GRANTED ──> the frame is handled ──> UNCOUNTED
"""

from typing import Final

RESPONSES: Final = 1
FOLLOWERS: Final = 2
TURN: Final = 4
MUTED: Final = 8
UNREAD: Final = 16
HANDLING: Final = 32
IGNORED: Final = 64
CLOSED: Final = 128
LOST: Final = 256

ALL: Final = 2 * LOST - 1
BLOCKED: Final = RESPONSES | FOLLOWERS | TURN | MUTED
"""A response or time ends these: then `_unblock` looks again."""

UNCOUNTED: Final = 0
GRANTED: Final = 1
AWAITED: Final = 2
