"""Smaller things that come from outside: JSON, the configuration, durations, times, cursors, signatures."""

import base64
import json
import math
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import standardwebhooks

from hookgw.testing import Received
from tests.fuzz.sentences import check_sentences
from tests.public.config import load_settings
from tests.public.delivery import SignatureInvalid, sign, verify
from tests.public.kernel import (
    MAX_DEPTH,
    StartError,
    decode_strict,
    parse_duration,
    parse_rfc3339,
    parse_size,
    rfc3339,
)
from tests.public.listen import read_received_event
from tests.public.records import parse_delivery_id


def json_text(data: bytes) -> None:
    """What is taken is what the standard library reads too, and what is refused it refuses too, strictly."""
    try:
        value = decode_strict(data)
    except ValueError:
        assert not _is_strict(data)
    else:
        assert value == json.loads(data)
        assert _is_strict(data)


def _is_strict(data: bytes) -> bool:
    """Whether a text is JSON without what two readers take differently (RFC 7493), and not too deep."""
    try:
        value = json.loads(
            data.decode(), object_pairs_hook=_without_twins, parse_float=_finite, parse_constant=_no_constant
        )
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return _depth(value) <= MAX_DEPTH


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("twins")
    return found


def _finite(text: str) -> float:
    if math.isinf(float(text)):
        raise ValueError("out of range")
    return float(text)


def _no_constant(text: str) -> float:
    raise ValueError(text)


def _depth(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(_depth, value.values() if isinstance(value, dict) else value), default=0)


def configuration(data: bytes) -> None:
    """A file, and variables before it (lines ``HOOKGW_…=…`` up to an empty one): settings, or sentences."""
    head, found, rest = data.partition(b"\n\n")
    lines = head.decode("utf-8", "replace").splitlines() if found and head.startswith(b"HOOKGW_") else []
    pairs = (line.partition("=") for line in lines if "\0" not in line)  # as in every environment
    environ = {name: value for name, mark, value in pairs if mark}
    with tempfile.NamedTemporaryFile(dir=_fast_folder()) as file:
        file.write(rest if environ else data)
        file.flush()
        try:
            load_settings(Path(file.name), environ)
        except StartError as error:
            check_sentences(*error.messages, printable=False)


def _fast_folder() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def units(data: bytes) -> None:
    """Durations and sizes are finite and not negative, and what is written of them is read as the same."""
    text = data.decode("utf-8", "replace")
    with suppress(ValueError):
        duration = parse_duration(text)
        assert 0 <= duration < math.inf
        assert math.isclose(parse_duration(str(duration)), duration)
    with suppress(ValueError):
        size = parse_size(text)
        assert size >= 0
        assert parse_size(str(size)) == size


def cursor_and_time(data: bytes) -> None:
    """A cursor fits into the database; a time is a number that is written as the same moment."""
    text = data.decode("utf-8", "replace")
    seq = parse_delivery_id(text)
    assert seq is None or 0 <= seq < 2**63
    try:
        moment = parse_rfc3339(text)
    except (ValueError, OverflowError):
        return
    with suppress(ValueError):
        assert abs(parse_rfc3339(rfc3339(moment)) - moment) < 0.002


KEY = bytes(range(32))
_THEIRS = standardwebhooks.Webhook(base64.b64encode(KEY).decode())


def signature(data: bytes) -> None:
    """A request with headers that somebody tampered with: what we take, another verifier takes too.

    Lines: what to put behind the id, the timestamp and the signature; the rest is the body. ``%`` in the
    last of them stands for the right signature.
    """
    parts = [*data.split(b"\n", 3), b"", b"", b"", b""]
    body, now = parts[3], int(time.time())
    more = [part.decode("latin-1") for part in parts[:3]]
    headers = {"webhook-id": "msg_1" + more[0], "webhook-timestamp": f"{now}{more[1]}"}
    right = sign([KEY], "msg_1", now, body)
    headers["webhook-signature"] = more[2].replace("%", right)
    try:
        verify([KEY], headers, body, now=now)
    except SignatureInvalid:
        assert more != ["", "", "%"]
        return
    assert (more[0], more[1]) == ("", "")
    with suppress(ValueError):  # it reads the body too, once the signature was right
        _THEIRS.verify(body, headers)


def arrival(data: bytes) -> None:
    """``hookgw listen`` shows any request: headers up to an empty line, then the body."""
    head, _, body = data.partition(b"\n\n")
    lines = [line.partition(":") for line in head.decode("latin-1").split("\n")]
    request = Received(
        position=0,
        connection=1,
        method="POST",
        target="/",
        headers=tuple((name.lower(), value) for name, _, value in lines),
        body=body,
        http_version="1.1",
        at=0.0,
    )
    shown = read_received_event(request, [KEY], time.time())
    assert shown.verified is False
    assert shown.problem
