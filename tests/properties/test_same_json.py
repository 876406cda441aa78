"""Any JSON arrives unchanged: over HTTP to a real receiver, through retries and restarts.

``HOOKGW_EXAMPLES`` (60) says how many examples each property is tried with.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hookgw.testing import answer, reset
from tests.public.kernel import MAX_DEPTH
from tests.support.jsontexts import json_texts
from tests.support.live import JSON, LINES, Live, Reply, running

EXAMPLES = int(os.environ.get("HOOKGW_EXAMPLES", "60"))
MANY = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
DIALECTS = ("single", "array", "lines")
TROUBLES = ("none", "none", "none", "failed", "unreachable", "restart")

_raw = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with running(tmp_path_factory.mktemp("same")) as live:
        url = live.receivers[0].url
        assert live.call("POST", "/webhook/set/shop", {"url": url}).status == 201
        yield live


@dataclass(frozen=True)
class Sent:
    """The payloads of one request, and its form."""

    dialect: str
    payloads: tuple[bytes, ...]

    @property
    def content(self) -> bytes:
        events = [b'{"event":"CALL","data":%b}' % data for data in self.payloads]
        if self.dialect == "array":
            return b"[%b]" % b" ,".join(events)
        return b"\n".join(events)

    def emit(self, live: Live) -> Reply:
        content_type = LINES if self.dialect == "lines" else JSON
        return live.call("POST", "/event/emit/shop", content=self.content, content_type=content_type)


@st.composite
def emissions(draw: st.DrawFn) -> Sent:
    dialect = draw(st.sampled_from(DIALECTS))
    most = 1 if dialect == "single" else 4
    texts = draw(st.lists(json_texts(breaks=dialect != "lines"), min_size=1, max_size=most))
    return Sent(dialect, tuple(text.encode() for text in texts))


@MANY
@given(sent=emissions(), trouble=st.sampled_from(TROUBLES))
def test_any_json_arrives_as_it_was(live: Live, sent: Sent, trouble: str) -> None:
    """``data`` has the same bytes: the order of keys, the spelling of numbers, every escape."""
    [receiver] = live.receivers
    receiver.requests.clear()
    if trouble != "none":
        receiver.will(reset() if trouble == "unreachable" else answer(500))
    reply = sent.emit(live)
    assert reply.status == 202, reply.body
    live.settled()
    if trouble == "restart":
        live.restart()
    if trouble != "none":
        live.advance(6)
    attempts = receiver.requests[0 if trouble == "none" else 1 :]
    assert [request.event_id for request in attempts] == reply.json["ids"]
    assert [bytes(_raw(request.body)["data"]) for request in attempts] == list(sent.payloads)
    assert receiver.requests[0].body == attempts[0].body


@MANY
@given(text=json_texts())
def test_any_json_is_shown_as_it_was(live: Live, text: str) -> None:
    """``/delivery/find`` shows the payload in the same bytes too."""
    [event_id] = Sent("single", (text.encode(),)).emit(live).json["ids"]
    live.settled()
    found = _raw(live.call("GET", f"/delivery/find/shop/{event_id}").body)
    assert bytes(_raw(found["event"])["data"]) == text.encode()


BROKEN = {
    "a name twice": b'{"a":1,"b":[],"a":1}',
    "a name twice in two spellings": rb'{"a":1,"\u0061":2}',
    "over the range of doubles": b"1e400",
    "under their range": b"-1e400",
    "more digits than are read": b"1" * 5000,
    "not a number": b"NaN",
    "infinity": b"-Infinity",
    "a leading zero": b"[01]",
    "a plus": b"+1",
    "half of a pair": rb'"\ud83d"',
    "the other half": rb'"\ude00"',
    "halves in the wrong order": rb'{"\ude00\ud83d":1}',
    "half of a pair, not escaped": b'"\xed\xa0\xbd"',
    "not UTF-8": b'"\xff"',
    "overlong UTF-8": b'"\xc0\xaf"',
    "a control character": b'"\x1f"',
    "an escape of no kind": rb'"\x41"',
    "a comma too many": b"[1,]",
    "a comment": b"/**/1",
    "nothing": b"",
    "cut off": b'{"a":',
    "two values": b"1 2",
    "single quotes": b"'a'",
    "too deep": b"[" * MAX_DEPTH + b"]" * MAX_DEPTH,
    "a hundred thousand deep": b"[" * 100_000,
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("place", [b"%b", b'[null,{"a":%b}]'], ids=["alone", "inside"])
def test_what_readers_take_differently_is_refused(
    live: Live, dialect: str, data: bytes, place: bytes
) -> None:
    """RFC 7493 (I-JSON) says what is refused: 400, and nothing of the batch is stored."""
    [receiver] = live.receivers
    receiver.requests.clear()
    payloads = (place % data,) if dialect == "single" else (b"1", place % data, b"{}")
    reply = Sent(dialect, payloads).emit(live)
    assert reply.status == 400
    assert reply.messages
    live.settled()
    assert receiver.requests == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_nesting_is_taken_up_to_the_limit(live: Live, dialect: str) -> None:
    """The event is one level of nesting; the array of a batch is not."""
    deepest = b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1)
    [receiver] = live.receivers
    receiver.requests.clear()
    assert Sent(dialect, (deepest,)).emit(live).status == 202
    live.settled()
    assert bytes(_raw(receiver.requests[0].body)["data"]) == deepest
    assert Sent(dialect, (b"[%b]" % deepest,)).emit(live).status == 400


@MANY
@given(content=st.binary(max_size=60), content_type=st.sampled_from([JSON, LINES]))
@example(content=b"[]", content_type=JSON)
@example(content=b"\n", content_type=LINES)
def test_no_bytes_are_a_bug(live: Live, content: bytes, content_type: str) -> None:
    """Bytes are refused, unless they are a batch of no events."""
    reply = live.call("POST", "/event/emit/shop", content=content, content_type=content_type)
    assert reply.status == 400 or (reply.status, reply.json["accepted"]) == (202, 0)
