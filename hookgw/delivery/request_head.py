"""The head of a request. The part that all requests to a target share is rendered once. No I/O."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache

from hookgw.kernel.target_url import Target

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile("[^\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]*")
# Headers of the connection (RFC 9110, section 7.6.1) and of the framing: a value that contradicts what the
# transport does would break keep-alive, or let a tenant smuggle a second request.
_CONNECTION = ("connection", "host", "keep-alive", "proxy-connection", "te", "trailer", "upgrade")
_FRAMING = ("content-length", "expect", "transfer-encoding")
_RESERVED = frozenset((*_CONNECTION, *_FRAMING))


class RequestHead:
    """The head of the POST requests to one target.

    It also contains ``host``, ``content-length``, ``accept: */*``, ``accept-encoding: identity``, and
    ``authorization`` if the URL has user information and no header of that name is given.

    Args:
        headers: sent with each request; names in any case, values in UTF-8.

    Raises:
        ValueError: a name is not a token or is reserved for the transport, or a value contains a line break
            or control character. The message is a sentence.
    """

    def __init__(self, target: Target, headers: Mapping[str, str]) -> None:
        # Responses are a few bytes: compressing them would cost the receiver more than it saves either side.
        fixed = {"accept": "*/*", "accept-encoding": "identity"}
        if target.authorization is not None:
            fixed["authorization"] = target.authorization
        fixed |= {_checked_name(name).lower(): value for name, value in headers.items()}
        self._start = f"POST {target.path} HTTP/1.1\r\nhost: {target.host_header}\r\n"
        self._fixed = fixed
        self._rendered = self._start + _lines(fixed.items())

    def beginning(self, headers: Mapping[str, str], without: Collection[str]) -> str:
        """Render the common part of many requests: the head up to the headers of each request.

        Names are in lower case. Each header replaces a fixed one of the same name; fixed headers in
        ``without`` are left out, because each request has its own.

        Raises:
            ValueError: as for the class.
        """
        fixed = {name: value for name, value in self._fixed.items() if name not in without}
        return self._start + _lines({**fixed, **headers}.items())

    def render(self, content_length: int, headers: Sequence[tuple[str, str]] = ()) -> bytes:
        """Render the head of one request, including the blank line that ends it.

        Each header, named in lower case, replaces a fixed one of the same name.

        Raises:
            ValueError: as for the class.
        """
        start = self._rendered
        for name, _ in headers:
            if name in self._fixed:
                # Rare: a registration that sets a header such as webhook-id. It must not be sent twice, and
                # the signature that was made for this attempt wins.
                names = {name for name, _ in headers}
                start = self._start + _lines(item for item in self._fixed.items() if item[0] not in names)
                break
        return f"{start}{_lines(headers)}content-length: {content_length}\r\n\r\n".encode()


def _lines(headers: Iterable[tuple[str, str]]) -> str:
    lines = []
    for name, value in headers:
        # isprintable() takes a third of the time of the pattern and true for nearly every value.
        if not value.isprintable() and not _VALUE.fullmatch(value):
            raise ValueError(f"The value of the header {name} contains a line break or control character.")
        lines.append(f"{_checked_name(name)}: {value}\r\n")
    return "".join(lines)


# Cached: the same few names come with every attempt.
@lru_cache(maxsize=1024)
def _checked_name(name: str) -> str:
    if not _TOKEN.fullmatch(name):
        raise ValueError(f"{name!r} is not a valid header name. Use letters, digits and hyphens.")
    if name.lower() in _RESERVED:
        raise ValueError(f"The header {name} is reserved: hookgw sets it itself. Remove it.")
    return name
