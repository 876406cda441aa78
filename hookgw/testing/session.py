"""The gateway's side of an instance, in memory, for unit tests of connectors."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import msgspec
import trio

from hookgw.config.settings import EventsSettings
from hookgw.connectors.coverage import Coverage
from hookgw.delivery.http.answer_memory import AnswerMemory
from hookgw.delivery.http.fetch import fetch_file
from hookgw.instances.connectors.session import encode_state
from hookgw.kernel.errors import Conflict, Invalid, TooLarge, Unavailable
from hookgw.kernel.json_text import decode_strict, encode_strict
from hookgw.kernel.network_json import LeftOut, read_network_json
from hookgw.records.connectors import ConnectionState, FetchedFile, Missed, NewEvent, QRCode
from hookgw.records.event_kinds import BUILT_IN_KINDS
from hookgw.records.events import EVENT_ID, Catalog
from hookgw.records.inline_media import largest_file
from hookgw.records.instances import CatchUp, InstanceSettings

T = TypeVar("T")

_SERVER = "https://hookgw.example"
_UNLIMITED = AnswerMemory(2**40)


class EmittedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that a connector raised.

    Attributes:
        kind, event_id, time, sender: see :class:`~hookgw.records.connectors.NewEvent`.
        data: the payload, after it has passed through JSON.
        data_json: the bytes of the payload, if the connector gave them.
        at: Trio's clock when it was stored.
    """

    kind: str
    data: Any
    data_json: bytes | None = None
    event_id: str | None = None
    time: float | None = None
    sender: str | None = None
    at: float


class FakeSession:
    """A session for unit tests of connectors: it records the connector's calls, and keeps its state.

    It satisfies :class:`hookgw.Session`. As in the gateway, an event whose id was stored before is left out,
    a change of the state raises CONNECTION_UPDATE, a QR code raises QRCODE_UPDATED, and the connector's state
    passes through JSON. To try a restart or a kill, cancel the connector's ``run``, and call it again with
    the same session. Event kinds and payloads are not checked; :class:`~hookgw.testing.GatewayKit` does that.

    Args:
        instance: the instance's name.
        options: the connector's options of the instance. The gateway adds the defaults of the connector's
            schema; here the test gives all.
        settings: how the account should behave.
        state: the state that an earlier run of the connector has saved.
        http: the connector's HTTP client, for example ``httpx.AsyncClient(transport=MockTransport(…))``. It
            also makes the requests of :meth:`fetch`, without an address guard. By default, all of them fail.
        wants_base64: whether a registration wants media inside its events.
        pairing_number: see :attr:`hookgw.Session.pairing_number`.
        catalog: the known event kinds; by default the built-in kinds.

    Attributes:
        options, settings, catalog, pairing_number: as given; the test may change them.
        client: the argument ``http``; the test may change it.
        wants_files: the argument ``wants_base64``; the test may change it.
        events: the stored events, in order.
        repeated: the events that were left out because their id was stored before.
        state: the connection's state; ``None`` before the first report.
        states: every reported state with its reason and the other values, in order.
        qr_codes: every code that was shown.
        stored: the connector's state, as it was saved last; ``None`` if there is none.
        max_data: the most bytes of an event's data.
        base64_limit: the bytes of the largest file that fits into an event as base64.
        left_out: how events begin that have too many JSON values.
        catch_up_limits: how much is caught up with.
        covered_until: until when a former run has stored everything, in seconds since the epoch; ``None``
            if there was none. A run updates it.
        gaps: the bounds of the times that INSTANCE_GAP would be raised for.
        media: reference, type and file name of each link that was made, by the link.
    """

    def __init__(
        self,
        instance: str = "shop",
        *,
        options: Mapping[str, Any] | None = None,
        settings: InstanceSettings | None = None,
        state: Any = None,
        http: httpx.AsyncClient | None = None,
        wants_base64: bool = False,
        pairing_number: str | None = None,
        catalog: Catalog | None = None,
    ) -> None:
        self._instance = instance
        self.options: dict[str, Any] = dict(options or {})
        self.settings = settings or InstanceSettings()
        self.events: list[EmittedEvent] = []
        self.repeated: list[NewEvent] = []
        self.state: ConnectionState | None = None
        self.states: list[tuple[ConnectionState, int, dict[str, Any]]] = []
        self.qr_codes: list[QRCode] = []
        self.stored: Any = decode_strict(encode_state(state))
        self.media: dict[str, tuple[str, str, str]] = {}
        self.catalog = catalog or Catalog(BUILT_IN_KINDS)
        self.client = http
        self.max_data: int = EventsSettings().max_data
        self.base64_limit: int = largest_file(self.max_data)
        self.wants_files = wants_base64
        self.pairing_number = pairing_number
        self.left_out: list[bytes] = []
        self.catch_up_limits = CatchUp()
        self.covered_until: float | None = None
        self.gaps: list[tuple[float, float]] = []
        self._coverage = self._new_coverage()
        self._ids: set[str] = set()
        self._is_over = False
        self._changed = trio.Event()
        self._answers: ContextVar[bool] = ContextVar("answers", default=False)

    @property
    def instance(self) -> str:
        """The instance's name."""
        return self._instance

    @property
    def http(self) -> httpx.AsyncClient:
        """The given client, or a client without a network."""
        if self.client is None:
            self.client = httpx.AsyncClient(transport=httpx.MockTransport(_no_network))
        return self.client

    async def fetch(self, url: str, *, limit: int) -> FetchedFile:
        """Return a file that the given client reads, by the gateway's rules for redirects and size.

        Raises:
            Invalid: the file cannot be read, or is larger.
        """
        return await fetch_file(self.http, url, limit=limit, held=_UNLIMITED.hold(self.instance))

    async def decode_json(
        self, text: bytes, *, events: Sequence[str] = (), left_out: Callable[[bytes], None] | None = None
    ) -> Any:
        """Return the value of JSON that the network sent, and record omitted parts.

        Raises:
            EventLeftOut: the whole text is an event, and is left out.
            ValueError: the text is not JSON, is nested too deeply, or has too many values.
        """

        def leave_out(event: LeftOut) -> None:
            self.left_out.append(event.text)
            if left_out is not None:
                left_out(event.text)

        return await self.in_turns(read_network_json(text, tuple(events), leave_out))

    async def in_turns(self, steps: Generator[None, None, T]) -> T:
        """Run a computation to its end, with a checkpoint at each of its pauses."""
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            await trio.lowlevel.checkpoint()

    @property
    def ingest_url(self) -> str | None:
        """Where the network may call hookgw."""
        return f"{_SERVER}/ingest/{quote(self.instance)}/0123456789abcdef0123456789abcdef"

    async def emit(self, kind: str, data: Any, *, event_id: str | None = None) -> None:
        """Record an event."""
        await self.emit_all([NewEvent(kind=kind, data=data, event_id=event_id)])

    async def emit_all(self, events: Sequence[NewEvent], *, state: Any = msgspec.UNSET) -> None:
        """Record events and keep the connector's state: all of it or nothing.

        Raises:
            Invalid: an id or a value breaks a rule.
            Conflict: the session is over.
        """
        # As in the gateway: the caller can be cancelled before the commit, and not within it.
        await trio.lowlevel.checkpoint()
        if self._answers.get() and self._coverage.holds:
            raise Unavailable("What came before is still to be fetched from the network.")
        if self._is_over:
            raise Conflict(f"This session of the instance {self.instance!r} is over.")
        recorded = [_recorded(event) for event in events]
        if state is not msgspec.UNSET:
            self.stored = decode_strict(encode_state(state))
        for new, event in zip(events, recorded, strict=True):
            if event.event_id in self._ids:
                self.repeated.append(new)
                continue
            if event.event_id is not None:
                self._ids.add(event.event_id)
            self.events.append(event)
        self._changed.set()
        self._changed = trio.Event()

    async def load_state(self) -> Any:
        """Return a copy of the state that was saved last."""
        await trio.lowlevel.checkpoint()
        return decode_strict(encode_state(self.stored))

    async def save_state(self, state: Any) -> None:
        """Keep the connector's state.

        Raises:
            Invalid: JSON cannot express it, or it is larger than 1 MiB.
            Conflict: the session is over.
        """
        await self.emit_all([], state=state)

    async def show_qr_code(self, qr_code: QRCode) -> None:
        """Record a code."""
        self.qr_codes.append(qr_code)
        shown = {"instance": self.instance, "pairingCode": qr_code.pairing_code}
        shown |= {"code": qr_code.code, "base64": qr_code.base64}
        await self.emit("QRCODE_UPDATED", {"qrcode": shown})

    async def set_state(self, state: ConnectionState, reason: int = 200, **more: Any) -> None:
        """Record a state. A change raises CONNECTION_UPDATE."""
        state = ConnectionState(state)
        self.states.append((state, reason, more))
        if state is self.state:
            await trio.lowlevel.checkpoint()
            return
        self.state = state
        data = {"instance": self.instance, "state": state.value, "statusReason": reason, **more}
        await self.emit("CONNECTION_UPDATE", data)

    def media_url(self, reference: str, *, mimetype: str = "", file_name: str = "") -> str:
        """Return a link that leads nowhere, and record it."""
        url = f"{_SERVER}/media/{quote(self.instance)}/{quote(reference, safe='')}"
        self.media[url] = (reference, mimetype, file_name)
        return url

    def wants_base64(self) -> bool:
        """Return the given value."""
        return self.wants_files

    def data_of(self, kind: str) -> list[Any]:
        """Return the data of each event of a kind, in order."""
        return [event.data for event in self.events if event.kind == kind]

    async def wait_for(self, kind: str, count: int = 1) -> list[Any]:
        """Wait until there are events of a kind, and return the data of all of them.

        Args:
            kind: the kind.
            count: how many there must be at least.
        """
        while len(found := self.data_of(kind)) < count:
            await self._changed.wait()
        return found

    async def wait_until(self, state: ConnectionState) -> None:
        """Wait until the connection has a state."""
        while self.state is not state:
            await self._changed.wait()

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Answer a request of the network in the block, as the gateway calls ``ingest``.

        Events raise ``Unavailable`` there as long as the connector has to catch up.
        """
        token = self._answers.set(True)
        try:
            yield
        finally:
            self._answers.reset(token)

    def lost_touch(self) -> None:
        """Hold events in :meth:`answering` until the connector has caught up."""
        self._coverage.lose()

    async def catch_up(self, missed: Missed) -> None:
        """Record what the network has from the time since :attr:`covered_until`."""
        await self._coverage.catch_up(missed)
        self.covered_until = self._coverage.until

    def begin_run(self) -> None:
        """Begin as after a restart of hookgw: the next :meth:`catch_up` asks for the time in between."""
        self._coverage = self._new_coverage()

    def _new_coverage(self) -> Coverage:
        async def load() -> float | None:
            await trio.lowlevel.checkpoint()
            return self.covered_until

        return Coverage(
            lambda: self.catch_up_limits,
            time.time,
            load,
            self.emit_all,
            lambda begin, end: self.gaps.append((begin, end)),
        )

    def end(self) -> None:
        """End the session, as a logout does: later calls that store something raise Conflict."""
        self._is_over = True


class FakeMediaSink:
    """Takes the content of an inbound file, for unit tests of ``open_media``.

    Args:
        limit: the bytes that it takes, as ``media.limit``.

    Attributes:
        mimetype: as passed to :meth:`begin`; ``None`` before.
        size, file_name: as passed to :meth:`begin`.
        content: what was written.
    """

    def __init__(self, *, limit: int = 100 * 2**20) -> None:
        self.mimetype: str | None = None
        self.size: int | None = None
        self.file_name = ""
        self.content = b""
        self._limit = limit

    async def begin(self, *, mimetype: str, size: int | None = None, file_name: str = "") -> None:
        """Note the type, size and name."""
        if self.mimetype is not None:
            raise RuntimeError("begin was called a second time")
        self.mimetype, self.size, self.file_name = mimetype, size, file_name
        await self.write(b"")

    async def write(self, chunk: bytes) -> None:
        """Keep a part of the content.

        Raises:
            TooLarge: the file exceeds the limit.
        """
        await trio.lowlevel.checkpoint()
        if self.mimetype is None:
            raise RuntimeError("write was called before begin")
        self.content += chunk
        if max(self.size or 0, len(self.content)) > self._limit:
            raise TooLarge(f"The file is larger than {self._limit} bytes.")


def _recorded(event: NewEvent) -> EmittedEvent:
    if event.event_id is not None and not EVENT_ID.fullmatch(event.event_id):
        raise Invalid(
            f"{event.event_id!r} is not an event id: use 1 to 255 letters, digits, '_' and '-'. "
            "hookgw.event_id_of makes one from the network's ids."
        )
    try:
        data = decode_strict(encode_strict(event.data) if event.data_json is None else event.data_json)
    except ValueError as error:
        raise Invalid(f"The data of {event.kind} {error}.") from None
    return EmittedEvent(
        kind=event.kind,
        data=data,
        data_json=event.data_json,
        event_id=event.event_id,
        time=event.time,
        sender=event.sender,
        at=trio.current_time(),
    )


def _no_network(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError(
        f"FakeSession has no network: pass it an HTTP client (http=…) that answers {request.url}.",
        request=request,
    )
