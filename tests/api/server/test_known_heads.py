"""Which heads a server remembers: those of producers, within a bound, whatever other clients send."""

import tracemalloc

import pytest

from tests.api.server.reading import take
from tests.public.web import LONGEST_KNOWN, MOST_MEMORY, MOST_SEEN, Head, KnownHeads, Refused, RequestReader


def head_of(number: int, padding: int = 0, fields: int = 0) -> bytes:
    more = b"".join(b"x-%d: %d\r\n" % (each, each) for each in range(fields))
    return (
        b"POST /event/emit/loja%d HTTP/1.1\r\nhost: hookgw.example.com\r\nuser-agent: producer/1.0\r\n"
        b"content-type: application/json\r\napikey: key-of-loja%d\r\ncontent-length: 2\r\nx: %b\r\n%b\r\n"
    ) % (number, number, b"x" * padding, more)


def is_known(heads: KnownHeads, given: bytes) -> bool:
    """Return whether a head is remembered; it counts as used."""
    return heads.read(given) is heads.read(bytes(bytearray(given)))


def test_heads_in_rotation_are_read_when_they_come_the_first_and_the_second_time() -> None:
    heads = KnownHeads()
    rotation = [head_of(number) for number in range(4000)]
    first, second, third, fourth = ([heads.read(given) for given in rotation] for _ in range(4))
    assert first == second
    assert not any(one is other for one, other in zip(first, second, strict=True))
    assert all(one is other for one, other in zip(second, third, strict=True))
    assert all(one is other for one, other in zip(second, fourth, strict=True))


def test_connections_share_heads_and_notes() -> None:
    heads = KnownHeads()
    readers = [RequestReader(LONGEST_KNOWN, heads) for _ in range(3)]
    found: list[Head] = []
    for reader in readers:
        (request,) = take(reader, [head_of(1) + b"{}"])
        assert request.body == b"{}"
        found.append(request.head)
    found[1].notes["a"] = 1
    assert found[1] is found[2]
    assert (found[0].notes, found[2].notes) == ({}, {"a": 1})
    (other,) = take(readers[0], [head_of(2) + b"{}"])
    assert other.head.notes == {}


def test_a_reader_without_others_knows_its_own_heads() -> None:
    reader = RequestReader(LONGEST_KNOWN)
    _, second, third = (request.head for request in take(reader, [(head_of(1) + b"{}") * 3]))
    assert second is third


def test_a_refused_head_is_refused_each_time() -> None:
    heads = KnownHeads()
    for _ in range(3):
        with pytest.raises(Refused):
            heads.read(head_of(1).replace(b"host:", b"host :"))
    assert len(heads) == 0


def test_a_head_that_comes_once_or_is_long_is_not_remembered() -> None:
    heads = KnownHeads()
    for number in range(100):
        heads.read(head_of(number))
    long = head_of(1, padding=LONGEST_KNOWN)
    assert not is_known(heads, long)
    assert not is_known(heads, long)
    assert len(heads) == 0


def test_the_head_that_was_not_used_for_the_longest_time_makes_room() -> None:
    heads = KnownHeads(100_000)
    used, unused = head_of(1), head_of(2)
    for given in (used, used, unused, unused):
        heads.read(given)
    first = heads.read(used)
    for number in range(10, 500):
        for _ in range(2):  # a client can send each of its heads twice
            heads.read(head_of(number))
        assert heads.read(used) is first
    assert len(heads) < 60
    assert not is_known(heads, unused)


def test_new_heads_do_not_push_out_those_that_are_used() -> None:
    heads = KnownHeads()
    rotation = [head_of(number) for number in range(1000)]
    for given in rotation * 2:
        heads.read(given)
    known = [heads.read(given) for given in rotation]
    for number in range(10_000, 10_000 + 2 * MOST_SEEN):
        heads.read(head_of(number))
    assert all(heads.read(given) is one for given, one in zip(rotation, known, strict=True))
    assert len(heads) == len(rotation)
    # Nor do they prevent that others become known.
    late = head_of(5000)
    heads.read(late)
    heads.read(late)
    assert is_known(heads, late)


@pytest.mark.parametrize(("padding", "fields"), [(0, 0), (1700, 0), (0, 26), (0, 110)])
def test_the_memory_is_bounded(padding: int, fields: int) -> None:
    most = MOST_MEMORY // 8
    heads = KnownHeads(most)
    tracemalloc.start()
    try:
        for number in range(1500):
            for _ in range(2):
                heads.read(head_of(number, padding, fields))
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0 < len(heads) < 1000
    assert used < most
