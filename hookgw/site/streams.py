"""Live parts of pages, as server-sent events (HTML Living Standard, section 9.2).

A stream sends a part of a page, rendered by the server, whenever it has changed; the module ``live.js``
replaces the old one by it. The id of an event is the digest of the part, so a browser that connects again
gets only what it does not show already.

A session has few streams, because a browser has few connections and some proxies keep the stream of a closed
page open. A further stream replaces the session's oldest, whose page connects again later.

Streams of the same part share one rendering. The more rendering costs, the longer it rests, so that open
pages take little from deliveries.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import trio
from quart import Response, request

from hookgw.core.browser_sessions import BrowserSessions, SignedIn
from hookgw.fair import Claim, Share
from hookgw.kernel.errors import HookgwError, NotFound, TooManyRequests
from hookgw.kernel.language import current_language, in_language
from hookgw.records.api_keys import Principal
from hookgw.records.registrations import GLOBAL_INSTANCE
from hookgw.records.sentences import TOO_MANY_LIVE_PAGES
from hookgw.site.visitor import visitor
from hookgw.web.request_body import current_exchange

MOST_STREAMS = 100
"""The most streams at a time."""
MOST_OF_SESSION = 4
"""The most streams of one session at a time; a further one replaces the oldest."""
MOST_OF_INSTANCE = 25
"""The most streams at a time of all sessions that began with a key of one instance, or with one other key
that is no operator's. A key may have many sessions. Those of operators' keys have no such limit."""
RESERVED = 10
"""Streams that only sessions of operators' keys can have."""
INTERVAL = 1.0
"""Seconds between two renderings of a part, at least."""
LONGEST_INTERVAL = 10.0
SHARE = 0.02
"""The part of the time that rendering takes at most, for as long as it rests no longer than
:data:`LONGEST_INTERVAL`."""
HEARTBEAT = 15.0
"""Seconds after which a stream without news sends an event, so that proxies do not close it, and ``live.js``
knows that it is alive: a browser sees no comment, and nothing of a connection that has died in silence."""
RETRY = 2_000
"""Milliseconds after which a browser connects again."""
_LINE = re.compile(r"\r\n|\r|\n")
"""The ends of lines in the format: str.splitlines knows more, which are part of the text."""

Render = Callable[[], Awaitable[str]]


class _Part:
    """A part of a page, as it was rendered last.

    Attributes:
        digest: of the text; empty before there is one.
        is_gone: whether what it shows does not exist any more.
        due: when it may be rendered again, on Trio's clock.
        users: how many streams show it.
    """

    def __init__(self, language: str) -> None:
        self.language = language
        self.lock = trio.Lock()
        self.text = ""
        self.digest = ""
        self.is_gone = False
        self.due = 0.0
        self.users = 0


class _Stream:
    """An open stream.

    Attributes:
        is_replaced: whether a newer stream of the session has its place.
        woken: set to look at once whether the stream must end.
    """

    def __init__(self, session: str) -> None:
        self.session = session
        self.is_replaced = False
        self.woken = trio.Event()


class Streams:
    """The open streams of the dashboard. Each ends with its session.

    Args:
        holds: returns whether this node has an instance, by its name. The stream of an instance that moves to
            another node ends: the browser connects again, and finds the other node.
        reaches: returns whether a caller reaches an instance now. Tags may change while a page is open.
    """

    def __init__(
        self,
        sessions: BrowserSessions,
        holds: Callable[[str], bool] = lambda _: True,
        reaches: Callable[[Principal, str], bool] = lambda _, __: True,
    ) -> None:
        self._holds = holds
        self._reaches = reaches
        self._sessions = sessions
        self._is_closed = False
        self._streams: list[_Stream] = []  # the oldest first
        # No instance has more than it leaves free, so that the next one finds some.
        self._share: Share[Claim] = Share(MOST_STREAMS - RESERVED, 1)
        self._parts: dict[Any, _Part] = {}

    def close(self) -> None:
        """End all streams, and refuse further ones, because the server shuts down."""
        self._is_closed = True
        for stream in self._streams:
            stream.woken.set()

    def open(
        self, key: Any, render: Render, *, instance: str | None = None, within: str | None = None
    ) -> Response:
        """Return the response that streams a part of a page, for the visitor of the current request.

        Args:
            key: hashable; streams with equal keys show the same, each in the language of its request. It has
                everything else that ``render`` depends on: what the caller may see, and ids, as names may
                be given away again.
            render: returns the HTML of the part. If it raises ``NotFound``, the stream ends: the browser
                connects again, is refused, and shows why. After any other error of
                :mod:`hookgw.kernel.errors`, the part is left as it is, and rendered again later.
            instance: the page's, if only its node knows the values in the part.
            within: the instance that the part is about; the same as ``instance`` by default. The stream ends
                when the caller no longer reaches it.

        Raises:
            TooManyRequests: there are too many streams, of the key's instance or in total.
        """
        signed_in = visitor().signed_in
        session, holder = signed_in.session.id, signed_in.holder.counted_as or GLOBAL_INSTANCE
        of_session = [one for one in self._streams if one.session == session and not one.is_replaced]
        replaced = of_session[0] if len(of_session) >= MOST_OF_SESSION else None
        room = min(MOST_OF_INSTANCE - self._share.held(holder), self._share.room(holder))
        may_open = holder == GLOBAL_INSTANCE or room + (replaced is not None) > 0
        if not may_open or self._share.used >= MOST_STREAMS:
            raise TooManyRequests(TOO_MANY_LIVE_PAGES, retry_after=10)
        if replaced is not None:
            replaced.is_replaced = True
            replaced.woken.set()
            # In total it counts until it has ended, which takes long if its client does not read.
            self._share.give(holder)
            self._share.take(GLOBAL_INSTANCE)
        last_seen = request.headers.get("last-event-id", "")
        exchange = current_exchange()
        key = (key, current_language())
        part = self._parts.setdefault(key, _Part(current_language()))
        stream = _Stream(session)
        self._streams.append(stream)
        self._share.take(holder)
        part.users += 1

        def leave() -> None:
            self._streams.remove(stream)
            self._share.give(GLOBAL_INSTANCE if stream.is_replaced else holder)
            part.users -= 1
            if not part.users and self._parts.get(key) is part:
                del self._parts[key]

        exchange.call_at_end(leave)
        # It lasts as long as the page is open, and does nothing most of the time.
        exchange.stop_counting()
        # A proxy that compresses (RFC 9111, 5.2.2.6) or buffers, as nginx does, would hold events back.
        headers = {"cache-control": "no-store, no-transform", "x-accel-buffering": "no"}
        response = Response(
            self._events(stream, signed_in, part, render, last_seen, instance, within or instance),
            headers=headers,
            content_type="text/event-stream; charset=utf-8",
        )
        response.timeout = None
        return response

    async def _events(
        self,
        stream: _Stream,
        signed_in: SignedIn,
        part: _Part,
        render: Render,
        last_seen: str,
        instance: str | None,
        within: str | None,
    ) -> AsyncIterator[bytes]:
        yield f"retry: {RETRY}\n\n".encode()
        shown, quiet = last_seen, 0.0
        while not self._is_closed and not stream.is_replaced:
            await self._refresh(part, render)
            # Behind it: rendering takes a while, in which the name may become another tenant's.
            if not self._sessions.is_valid(signed_in):
                break
            if instance is not None and not self._holds(instance):
                return
            if within is not None and not self._reaches(signed_in.holder.principal, within):
                break
            if part.is_gone:
                return
            if part.digest and part.digest != shown:
                shown, quiet = part.digest, 0.0
                lines = "".join(f"data: {line}\n" for line in _LINE.split(part.text))
                yield f"id: {shown}\n{lines}\n".encode()
            elif quiet >= HEARTBEAT:
                quiet = 0.0
                yield b"event: beat\ndata:\n\n"
            quiet += INTERVAL
            with trio.move_on_after(INTERVAL):
                await stream.woken.wait()
        # At a shutdown the page connects again, and shows that it cannot.
        if not self._is_closed:
            yield b"event: %s\ndata:\n\n" % (b"replaced" if stream.is_replaced else b"ended")

    async def _refresh(self, part: _Part, render: Render) -> None:
        # One stream renders for all that show the part; if it is cancelled, the next one does.
        async with part.lock:
            if trio.current_time() < part.due:
                return
            started = time.perf_counter()
            try:
                with in_language(part.language):
                    part.text = await render()
            except HookgwError as error:
                part.is_gone = isinstance(error, NotFound)
            else:
                part.is_gone = False
                part.digest = hashlib.sha256(part.text.encode()).hexdigest()[:16]
            taken = time.perf_counter() - started
            rest = max(INTERVAL, taken * len(self._parts) / SHARE)
            part.due = trio.current_time() + min(rest, LONGEST_INTERVAL)
