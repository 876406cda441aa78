"""The head of a request: what stays the same is rendered once for a target. No I/O."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from hookgw.models.target_url import Target

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile("[^\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]*")
_ROUTING = ("connection", "host", "keep-alive", "proxy-connection", "te", "trailer", "upgrade")
_FRAMING = ("content-length", "expect", "transfer-encoding")
_OURS = frozenset((*_ROUTING, *_FRAMING))


class RequestHead:
    """The head of the POST requests to one target.

    Beside the headers that it is given it has ``host``, ``content-length``, ``authorization`` (where the
    URL has user information and no header of that name is given), ``accept: */*`` and
    ``accept-encoding: identity``: answers are a few bytes, and compressing them costs the receiver more
    than it saves either side.

    Args:
        target: where the requests go.
        headers: sent with each of them. Names in any case; values are sent in UTF-8.

    Raises:
        ValueError: a name is no token, is one that only the transport may set (RFC 9110, section 7.6.1),
            or a value has a line break or control character in it.
    """

    def __init__(self, target: Target, headers: Mapping[str, str]) -> None:
        fixed = {"accept": "*/*", "accept-encoding": "identity"}
        if target.authorization is not None:
            fixed["authorization"] = target.authorization
        fixed |= {_checked_name(name).lower(): value for name, value in headers.items()}
        self._start = f"POST {target.path} HTTP/1.1\r\nhost: {target.host_header}\r\n"
        self._fixed = fixed
        self._rendered = self._start + _lines(fixed.items())

    def render(self, content_length: int, headers: Sequence[tuple[str, str]] = ()) -> bytes:
        """The head of one request, with the blank line that ends it.

        Args:
            content_length: of the body, in bytes.
            headers: those of this request alone, names in lower case; each replaces a fixed one of the
                same name.

        Raises:
            ValueError: as for the class.
        """
        start = self._rendered
        for name, _ in headers:
            if name in self._fixed:
                start = self._without({name for name, _ in headers})
                break
        return f"{start}{_lines(headers)}content-length: {content_length}\r\n\r\n".encode()

    def _without(self, names: set[str]) -> str:
        return self._start + _lines([item for item in self._fixed.items() if item[0] not in names])


def _lines(headers: Collection[tuple[str, str]]) -> str:
    for name, value in headers:
        if not value.isprintable() and not _VALUE.fullmatch(value):
            raise ValueError(f"The value of the header {name} has a line break or control character in it.")
    return "".join([f"{_checked_name(name)}: {value}\r\n" for name, value in headers])


@lru_cache(maxsize=1024)
def _checked_name(name: str) -> str:
    if not _TOKEN.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a header: letters, digits and hyphens.")
    if name.lower() in _OURS:
        raise ValueError(f"The header {name} is set by the transport alone.")
    return name
