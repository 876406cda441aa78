"""The heads that clients send again and again, read once for all connections of a server.

A producer sends the same head with each event of an instance: it has the same path, key and length. To read
it, and to find the key's holder and the headers, costs more than half as much as all else until the body is
parsed.

Anybody can send heads, so what is remembered is bounded, and those who send new ones must not push out those
of others: a head is remembered when it comes the second time, and the head that was unused for the longest
time makes room. For a head that comes once, that is a look-up and the mark that it was seen.
"""

from __future__ import annotations

from collections import OrderedDict

from hookgw.kernel.units import Size
from hookgw.web.server.request_head import Head, read_head

MOST_MEMORY = Size(20 * 1024**2)
"""Bytes of all remembered heads, with their notes: 4,700 heads of six headers each."""
LONGEST_KNOWN = 2048
"""Bytes of a head that is remembered."""
MOST_SEEN = 8192
"""Heads between two times of one head, for it to be remembered."""


class KnownHeads:
    """Heads by their bytes. All requests with the same bytes get the same :class:`Head`, and its notes."""

    def __init__(self, most_memory: int = MOST_MEMORY) -> None:
        self._left = most_memory
        self._heads: OrderedDict[bytes, Head] = OrderedDict()
        self._seen: set[int] = set()  # hashes: they are random for each process, and small

    def __len__(self) -> int:
        return len(self._heads)

    def read(self, given: bytes) -> Head:
        """Return a head, from its first byte to the end of its blank line, as :func:`read_head` does.

        Raises:
            Refused: see :func:`read_head`.
        """
        head = self._heads.get(given)
        if head is not None:
            self._heads.move_to_end(given)
            return head
        head = read_head(given)
        if len(given) <= LONGEST_KNOWN:
            mark = hash(given)
            if mark in self._seen:
                self._seen.remove(mark)
                self._remember(given, head)
            else:
                if len(self._seen) == MOST_SEEN:
                    self._seen.clear()
                self._seen.add(mark)
        return head

    def _remember(self, given: bytes, head: Head) -> None:
        self._heads[given] = head
        self._left -= _memory_of(given, head)
        while self._left < 0:
            self._left += _memory_of(*self._heads.popitem(last=False))


def _memory_of(given: bytes, head: Head) -> int:
    """Return about the bytes that a head takes with its notes. It is there as bytes twice, and as text."""
    return 2400 + 3 * len(given) + 220 * len(head.fields)
