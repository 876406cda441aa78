"""Hostile JSON, as small as it can be for what it costs: pure functions, from a size in bytes to a text.

Each was found by measuring: the comment says what it cost before there was a limit, for 1 MiB.
"""

from collections.abc import Callable, Mapping

MEGABYTE = 2**20


def repeated(unit: bytes, size: int, begin: bytes = b"[", end: bytes = b"]") -> bytes:
    """Return a list of equal items with about so many bytes."""
    count = max(1, (size - len(begin) - len(end)) // (len(unit) + 1))
    return begin + b",".join([unit] * count) + end


# By name.
VALUES: Mapping[str, Callable[[int], bytes]] = {
    # 350,000 lists: 0.1 s to decode, and 8 s to report that each breaks a schema.
    "empty_lists": lambda size: repeated(b"[]", size),
    # 130,000 numbers that msgspec reads in 20 µs each: 2.3 s.
    "slow_numbers": lambda size: repeated(b"1.5e300", size),
    # Numbers near zero, with an exponent that is slow too: 1.1 s.
    "subnormal_numbers": lambda size: repeated(b"1.5e-310", size),
    # Integers of 4,300 digits, which Python reads and writes in quadratic time: 0.15 s.
    "long_integers": lambda size: repeated(b"9" * 4300, size),
    # Lists of the greatest allowed depth: 0.7 s, most of it in the garbage collector.
    "deep_lists": lambda size: repeated(b"[" * 190 + b"]" * 190, size),
    # One list in another, without an end.
    "endless_depth": lambda size: b"[" * size,
    # An object of 110,000 fields with different names.
    "many_names": lambda size: b"{" + b",".join(b'"%x":0' % number for number in range(size // 10)) + b"}",
    # Objects with a duplicate name each; naming it took another, slower parser.
    "same_names": lambda size: repeated(b'{"a":0,"a":0}', size),
    # Names whose colons are escaped, so that counting colons does not find duplicates: 0.15 s.
    "escaped_colons": lambda size: repeated(b'{"\\u003a":0}', size),
    # One text of commas and brackets: few values, but many by a careless count.
    "commas_in_text": lambda size: b'["' + b",[{" * ((size - 4) // 3) + b'"]',
    "quotes_in_text": lambda size: b'["' + b'\\"' * ((size - 4) // 2) + b'"]',
    # A text of halves of characters, which is not JSON.
    "half_surrogates": lambda size: b'"' + b"\\ud800" * ((size - 2) // 6) + b'"',
    # Nearly nothing.
    "white_space": lambda size: b"[" + b" \n" * (size // 2 - 1) + b"]",
}


def within(maker: Callable[[int], bytes], values: int = 99_000) -> bytes:
    """Return a text of a maker with about as many values as ``events.max_values`` allows by default."""
    low, high = 64, MEGABYTE - 4096
    while high - low > 64:
        size = (low + high) // 2
        text = maker(size)
        count = text.count(b",") + text.count(b"[") + text.count(b"{") + 9 * text.count(b"e")
        low, high = (size, high) if count <= values else (low, size)
    return maker(low)


def unknown_kinds(count: int) -> bytes:
    """The body of a ``set`` or a replay with names that resemble every known kind: 1.7 s for 1,000."""
    names = b",".join(b'"ESAU_MESSAGES_%d"' % number for number in range(count))
    return b'{"url":"http://127.0.0.1/","since":"1h","kinds":[%b],"events":[%b]}' % (names, names)


def long_plugin_name(size: int) -> bytes:
    """The body of a ``set`` with options for a plugin whose name is as long as the body."""
    return b'{"url":"http://127.0.0.1/","plugins":{"%b":{}}}' % (b"message_filters" * (size // 15))
