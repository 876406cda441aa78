"""Differences that are meant, by their reason. A name ends in ``*`` if all cases that begin so are meant."""

EXPLAINED: dict[str, tuple[str, ...]] = {
    "its limits (of a line, a value or the number of headers) are lower than hookgw's": (
        *(
            f"gunicorn: invalid/{number}"
            for number in ("006", "007", "008", "009", "010", "011", "012", "017")
        ),
        "gunicorn: invalid/limit_header_default_01",
    ),
    "hookgw's limit is lower: 16 KiB for a head (server.max_header)": ("gunicorn: valid/024",),
    "a rule of WSGI, not of HTTP: there, names with _ and - are the same, and some headers are special": (
        *(f"gunicorn: invalid/{number}" for number in ("019", "040", "041", "chunked_07")),
    ),
    "trailers are checked and dropped: a length or a host among them changes nothing (RFC 9110, 6.5.1)": (
        "gunicorn: invalid/rfc9110_trailer_forbidden_*",
    ),
    "a fragment is no part of a request's target (RFC 9112, 3.2)": (
        "gunicorn: valid/005",
        "http-parser: fragment in url",
        "http-parser: post identity body world",
    ),
    "hookgw reads no transfer coding but chunked; another one is refused (RFC 9112, 6.1)": (
        *(f"gunicorn: valid/{number}" for number in ("025", "025_line", "029", "030")),
        "gunicorn: valid/rfc9112_smuggle_gzip_chunked_01",
        "gunicorn: valid/rfc9112_smuggle_te_identity_chunked_01",
        "http-parser: post - multi coding transfer-encoding chunked body",
        "http-parser: post - multi line coding transfer-encoding chunked body",
    ),
    "an option of the suite's server, off by default: whitespace, methods or folding that it repairs": (
        *(f"gunicorn: valid/{number}" for number in ("028", "031", "031compat", "031compat2")),
        "gunicorn: valid/compat_obs_fold",
        "gunicorn: valid/compat_obs_fold_huge",
    ),
    "the suite's server speaks the PROXY protocol": ("gunicorn: valid/pp_0*",),
    "the length of the case is longer than its body": ("gunicorn: valid/099",),
    "a target with a user is an error (RFC 9110, 4.2.4)": (
        "gunicorn: valid/rfc9112_target_absolute_userinfo_01",
        "http-parser: host:port and basic_auth",
    ),
    "hookgw is no proxy: no CONNECT (RFC 9110, 9.3.6)": ("gunicorn: valid/rfc9112_target_authority_*",),
    "hookgw has no route of the whole server (*), so it refuses this form": (
        "gunicorn: valid/rfc9112_target_asterisk_options_01",
        "http-parser: m-search request",
    ),
    "HTTP/0.9 is refused (RFC 9112, 2.3)": (
        "http-parser: request with no http version",
        "http-parser: http version 0.9",
    ),
    "a folded value is refused (RFC 9112, 5.2)": ("http-parser: line folding in header value",),
    "a target has no bytes beyond ASCII (RFC 3986, 2)": ("http-parser: utf-8 path request",),
    "the case is not complete: its parser waits for more, and a server sees the end": (
        "http-parser: simple 3 HPE_OK",
        "http-parser: simple 18 HPE_OK",
        "http-parser: simple 19 HPE_OK",
    ),
    "a switch of protocols that nobody asked for is no delivery (RFC 9110, 7.8)": (
        "http-parser: HTTP 101 response *",
    ),
    "any whitespace may separate the parts of a status line (RFC 9112, 4)": (
        "http-parser: simple 8 HPE_INVALID_VERSION",
        "http-parser: simple 9 HPE_INVALID_VERSION",
    ),
}


def reason_of(key: str) -> str | None:
    """Return why a case differs; ``None`` if nobody knows."""
    for reason, names in EXPLAINED.items():
        if any(covers(name, key) for name in names):
            return reason
    return None


def covers(name: str, key: str) -> bool:
    """Return whether a name on the list means a case."""
    return key.startswith(name[:-1]) if name.endswith("*") else key == name
