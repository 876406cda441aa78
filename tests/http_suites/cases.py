"""The cases: those of others' packages, read as data, and our own from the RFCs."""

import ast
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGES = ("gunicorn==27.0.1", "httptools==0.9.0", "h11==0.16.0")
"""Their source packages have the suites of gunicorn, of http-parser (which llhttp follows), and of h11."""

ACCEPTED, REFUSED = "accepted", "refused"

_REQUEST = re.compile(rb"(?:\r\n)*[A-Za-z!#-]+ \S+ HTTP/\d")
_RESPONSE = re.compile(rb"HTTP/\d")
_ESCAPE = re.compile(r"\\(?:x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_SIMPLE_ESCAPES = {"r": "\r", "n": "\n", "t": "\t", "f": "\f", "v": "\v"}
_C_STRINGS = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'
_C_MESSAGE = re.compile(
    r'\{\.name=\s*"([^"]*)"\s*,\.type=\s*HTTP_(REQUEST|RESPONSE)\s*,\.raw=\s*' + _C_STRINGS + r"\s*,\."
)
_C_SIMPLE = re.compile(
    r"test_simple(?:_type)?\(\s*" + _C_STRINGS + r",\s*(HPE_\w+|0)\s*(?:,\s*HTTP_(RESPONSE|REQUEST))?\)"
)


class Case(NamedTuple):
    """Bytes that one side sends on a connection, before it ends its side.

    Attributes:
        suite, name: of the case; together they are unique.
        sent: the bytes.
        expected: what the suite, or the RFC, says of them; empty if it says nothing.
    """

    suite: str
    name: str
    sent: bytes
    expected: str = ""

    @property
    def key(self) -> str:
        """The name of the case in the list of explained differences."""
        return f"{self.suite}: {self.name}"


def requests_of_packages(folder: Path) -> Iterator[Case]:
    """Yield the requests in the source packages of :data:`PACKAGES`, which are in a folder."""
    for case in (*_of_gunicorn(folder), *_of_http_parser(folder, "REQUEST"), *_of_h11(folder, _REQUEST)):
        # Suites of parsers leave out the Host, without which a server must refuse a request of HTTP/1.1.
        sent = case.sent
        if b"\nhost" not in sent.lower():
            sent = re.sub(rb"( HTTP/1\.1\r?\n)", rb"\1Host: x\r\n", sent)
        yield case._replace(sent=sent)


def responses_of_packages(folder: Path) -> Iterator[Case]:
    yield from _of_http_parser(folder, "RESPONSE")
    yield from _of_h11(folder, _RESPONSE)


def _files(folder: Path, package: str) -> dict[str, bytes]:
    name, _, version = package.partition("==")
    files = {}
    with tarfile.open(folder / f"{name}-{version}.tar.gz") as archive:
        for member in archive:
            if member.isfile() and (content := archive.extractfile(member)) is not None:
                files[member.name.partition("/")[2]] = content.read()
    return files


def _of_gunicorn(folder: Path) -> Iterator[Case]:
    for path, text in sorted(_files(folder, PACKAGES[0]).items()):
        found = re.fullmatch(r"tests/requests/(valid|invalid)/(\w+)\.http", path)
        if found is None:
            continue
        # As its tests read them: the line breaks of the file are for the eye.
        sent = text.replace(b"\n", b"").replace(b"\\r\\n", b"\r\n").replace(b"\\0", b"\0")
        sent = sent.replace(b"\\n", b"\n").replace(b"\\t", b"\t")
        sent = re.sub(rb"\\x([0-9A-Fa-f]{2})", lambda digits: bytes([int(digits[1], 16)]), sent)
        yield Case("gunicorn", f"{found[1]}/{found[2]}", sent, ACCEPTED if found[1] == "valid" else REFUSED)


def _of_http_parser(folder: Path, kind: str) -> Iterator[Case]:
    text = _files(folder, PACKAGES[1])["vendor/http-parser/test.c"].decode("latin-1")
    for name, type_, raw in _C_MESSAGE.findall(text):
        if type_ == kind:
            yield Case("http-parser", name, _c_string(raw), ACCEPTED)
    for number, (raw, result, type_) in enumerate(_C_SIMPLE.findall(text)):
        if (type_ or "REQUEST") == kind:
            expected = ACCEPTED if result in ("HPE_OK", "0") else REFUSED
            yield Case("http-parser", f"simple {number} {result}", _c_string(raw), expected)


def _c_string(literals: str) -> bytes:
    parts = re.findall(r'"((?:[^"\\]|\\.)*)"', literals, re.DOTALL)
    return _ESCAPE.sub(_unescape, "".join(parts)).encode("latin-1")


def _unescape(escape: re.Match[str]) -> str:
    said = escape[0][1:]
    if said[0] == "x":
        return chr(int(said[1:], 16))
    return chr(int(said, 8)) if said[0] in "01234567" else _SIMPLE_ESCAPES.get(said, said)


def _of_h11(folder: Path, kind: re.Pattern[bytes]) -> Iterator[Case]:
    for path, text in sorted(_files(folder, PACKAGES[2]).items()):
        if not re.fullmatch(r"h11/tests/test_\w+\.py", path):
            continue
        known = set()
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Constant) or not isinstance(sent := node.value, bytes):
                continue
            is_whole = b"\r\n\r\n" in sent or b"\n\n" in sent
            if is_whole and kind.match(sent) and sent not in known:
                known.add(sent)
                yield Case("h11", f"{Path(path).stem}:{node.lineno}", sent)
