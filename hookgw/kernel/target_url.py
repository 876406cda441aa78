"""The URL of a receiver, parsed once so that no event pays for parsing. No I/O."""

from __future__ import annotations

import base64
import re
from urllib.parse import quote, unquote_to_bytes

import msgspec

from hookgw.kernel.host_name import parse_host
from hookgw.kernel.masking import repr_without
from hookgw.kernel.schemes import HTTP_PORTS, PULL_URL, SCHEME_PATTERN, standard_port
from hookgw.kernel.sentences import Sentence

MAX_URL = 2048
"""The maximum length of a URL, in characters."""
Origin = tuple[str, str, int]
"""Scheme, host and port."""

_URL = re.compile(rf"({SCHEME_PATTERN})://([^/?]*+)([^?]*+)(\?.*)?", re.DOTALL)
_FORM = Sentence("url.form", "The URL must begin with http:// or https://, as in https://example.com/hook.")
_FRAGMENT = Sentence("url.fragment", "The URL must not have a fragment: remove the # and what follows it.")
# A page that finds its content by the fragment. Without it, the URL is that of the site's first page.
_PAGE = Sentence(
    "url.page",
    "The URL is the address of a page in a browser, as its # shows. Use the URL for webhooks that the page "
    "names.",
)
_HOST_AND_PORT = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]*))?")
# "%" is safe because the URL may already be percent-encoded, and encoding it twice would change it. "[]" and
# "|" are not valid in RFC 3986 queries, but receivers' URLs contain them and browsers send them unencoded.
_SAFE = "%/?:@!$&'()*+,;=~[]|"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed URL. Created by :func:`parse_target` and :func:`parse_destination`.

    Attributes:
        host: a name in ASCII, or an IP address without brackets.
        port: given, or implied by the scheme.
        path: the request target: path and query, percent-encoded, never empty (RFC 9112, section 3.2.1).
        host_header: the value of the ``host`` header, without the scheme's default port.
        authorization: Basic credentials from the URL's user information (RFC 7617), or ``None``.
    """

    url: str
    scheme: str
    host: str
    port: int
    path: str
    host_header: str
    authorization: str | None = None

    __repr__ = repr_without("authorization")

    @property
    def server_hostname(self) -> str:
        """The name that the receiver's certificate must contain."""
        # Certificates have no trailing dot, and SNI must not have one (RFC 6066, section 3).
        return self.host.removesuffix(".")

    @property
    def origin(self) -> Origin:
        """Scheme, host and port, for comparing: ``host.`` and ``host`` are the same host."""
        return (self.scheme, self.host.removesuffix("."), self.port)

    @property
    def place(self) -> str:
        """Host and port for messages, as ``example.com:443`` or ``[::1]:8080``."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def for_kind(self, segment: str) -> Target:
        """Return a target with a segment appended to its path, without a double slash."""
        # The URL as given and its quoted path differ, so both get the segment.
        url, mark, query = self.url.partition("?")
        path = self.path.partition("?")[0]
        return msgspec.structs.replace(
            self,
            url=f"{url.removesuffix('/')}/{segment}{mark}{query}",
            path=f"{path.removesuffix('/')}/{segment}{self.path[len(path) :]}",
        )


def parse_destination(url: str) -> Target:
    """Validate and parse the URL of a registration, whoever sends to it.

    Args:
        url: as for :func:`parse_target`, or of any other scheme with a host, and with a port unless the
            scheme has a standard one; or :data:`~hookgw.kernel.schemes.PULL_URL`, which has no host.

    Raises:
        ValueError: as for :func:`parse_target`. Whether a plugin sends to the scheme is not checked here.
    """
    if url == PULL_URL:
        return Target(url=url, scheme="pull", host="", port=0, path="", host_header="")
    return _parse(url, is_http=False)


def parse_target(url: str) -> Target:
    """Validate and parse a URL of HTTP.

    Args:
        url: absolute, ``http`` or ``https`` in any case, with a host, without a fragment, at most
            :data:`MAX_URL` characters. The host may have any spelling that browsers understand
            (see :mod:`hookgw.kernel.host_name`).

    Raises:
        ValueError: the URL breaks one of these rules; the message is a sentence that says which. It never
            repeats user information.
    """
    return _parse(url, is_http=True)


def _parse(url: str, *, is_http: bool) -> Target:
    if len(url) > MAX_URL:
        raise ValueError(
            Sentence(
                "url.too_long_to_dial",
                "The URL has {count} characters; at most {most} are allowed.",
                count=len(url),
                most=MAX_URL,
            )
        )
    # A line break in a URL could add headers to the request. No other space than " " is printable.
    if not url.isprintable() or " " in url:
        raise ValueError(
            Sentence("url.spaces", "The URL must not contain spaces, line breaks or control characters.")
        )
    match = _URL.fullmatch(url)
    scheme = match[1].lower() if match else ""
    if match is None or (is_http and scheme not in HTTP_PORTS):
        raise ValueError(_FORM)
    if "#" in url:
        raise ValueError(_PAGE if url.partition("#")[2].startswith(("/", "!")) else _FRAGMENT)
    authority = match[2]
    # Browsers read "\" as "/", others as part of the user information: "http://a\@b/" has two hosts.
    if "\\" in authority:
        raise ValueError(Sentence("url.backslash", "The URL must not have a backslash before its path."))
    user_info, _, place = authority.rpartition("@")
    host_and_port = _HOST_AND_PORT.fullmatch(place)
    if host_and_port is None:
        raise ValueError(
            Sentence(
                "url.host_and_port",
                "The URL's host and port must be as in example.com:8080 or [2001:db8::1]:8080.",
            )
        )
    if not host_and_port[1]:
        raise ValueError(Sentence("url.no_host", "The URL has no host, as in https://example.com/hook."))
    host, digits = parse_host(host_and_port[1]), host_and_port[2]
    default_port = standard_port(scheme)
    if default_port is None and not digits:
        raise ValueError(
            Sentence(
                "url.port_missing",
                "The URL must begin with http:// or https://, as in https://example.com/hook. A URL of "
                "another scheme must name the port.",
            )
        )
    # An empty port is the default one (RFC 3986, section 3.2.3).
    port = (default_port or 0) if not digits else int(digits) if len(digits) <= 5 else 0
    if not 1 <= port <= 65535:
        raise ValueError(
            Sentence("url.port", "The port {port} is not between 1 and 65535.", port=(digits or "")[:16])
        )
    shown_host = f"[{host}]" if ":" in host else host.removesuffix(".")
    return Target(
        url=url,
        scheme=scheme,
        host=host,
        port=port,
        path=quote((match[3] or "/") + (match[4] or ""), safe=_SAFE),
        host_header=shown_host if port == default_port else f"{shown_host}:{port}",
        authorization=_basic(user_info) if user_info else None,
    )


def _basic(user_info: str) -> str:
    # Percent-encoding lets a user contain ":" or "@"; RFC 7617, section 2.1: the bytes are UTF-8.
    user, _, password = user_info.partition(":")
    credentials = unquote_to_bytes(user) + b":" + unquote_to_bytes(password)
    return "Basic " + base64.b64encode(credentials).decode("ascii")
