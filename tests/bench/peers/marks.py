"""A mark of a fixed length in each event: who published it, as which number, and when."""

import re

PLACE = b"peers:00000:0000000:0000000000000000000"
"""What an adapter gets in the place of a mark. It has the length of every mark."""

MARK = re.compile(rb"peers:(\d{5}):(\d{7}):(\d{19})")


def make_mark(publisher: int, number: int, sent: int) -> bytes:
    """Return the mark of an event.

    Args:
        publisher: below 100,000.
        number: counts the events of this publisher, from 0.
        sent: the monotonic clock, in nanoseconds.
    """
    return b"peers:%05d:%07d:%019d" % (publisher, number, sent)
