"""The head of a request. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from hookgw.kernel.rules import NAME_PATTERN
from hookgw.kernel.target_url import Target

_TOKEN = re.compile(NAME_PATTERN)
_VALUE = re.compile("[^\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]*")
# Headers of the connection (RFC 9110, section 7.6.1) and of the framing: a value that contradicts what the
# transport does would break keep-alive, or let a tenant smuggle a second request.
_CONNECTION = ("connection", "host", "keep-alive", "proxy-connection", "te", "trailer", "upgrade")
_FRAMING = ("content-length", "expect", "transfer-encoding")
_RESERVED = frozenset((*_CONNECTION, *_FRAMING))


def render_head(target: Target, headers: Mapping[str, str], content_length: int) -> bytes:
    """Render the head of a POST request, including the blank line that ends it; see :func:`begin_head`."""
    return f"{begin_head(target, headers)}content-length: {content_length}\r\n\r\n".encode()


def begin_head(target: Target, headers: Mapping[str, str]) -> str:
    """Render the head of POST requests, up to further headers and ``content-length``.

    It also contains ``host``, ``accept: */*``, ``accept-encoding: identity``, and ``authorization`` if the
    URL has user information and no header of that name is given.

    Args:
        headers: names in any case, values in UTF-8.

    Raises:
        ValueError: a name is not a token or is reserved for the transport, or a value contains a line break
            or control character. The message is a sentence.
    """
    # Responses are a few bytes: compressing them would cost the receiver more than it saves either side.
    found = {"accept": "*/*", "accept-encoding": "identity"}
    if target.authorization is not None:
        found["authorization"] = target.authorization
    for name, value in headers.items():
        # isprintable() takes a third of the time of the pattern and true for nearly every value.
        if not value.isprintable() and not _VALUE.fullmatch(value):
            raise ValueError(f"The value of the header {name} contains a line break or control character.")
        found[_checked_name(name).lower()] = value
    lines = "".join([f"{name}: {value}\r\n" for name, value in found.items()])
    return f"POST {target.path} HTTP/1.1\r\nhost: {target.host_header}\r\n{lines}"


# Cached: the same few names come with every attempt.
@lru_cache(maxsize=1024)
def _checked_name(name: str) -> str:
    if not _TOKEN.fullmatch(name):
        raise ValueError(f"{name!r} is not a valid header name. Use letters, digits and hyphens.")
    if name.lower() in _RESERVED:
        raise ValueError(f"The header {name} is reserved: hookgw sets it itself. Remove it.")
    return name
