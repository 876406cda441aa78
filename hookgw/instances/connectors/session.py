"""The gateway's side of a connected instance."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import httpx
import msgspec
import structlog
import trio

from hookgw.concurrency.clock import Clock
from hookgw.connectors.coverage import Coverage
from hookgw.core.ingest_url import IngestUrls
from hookgw.core.long_work import run_in_slices
from hookgw.delivery.http.connector_client import ConnectorClients
from hookgw.instances.connectors.inbound_media import InboundMedia
from hookgw.instances.connectors.network_request import is_answering, refuse_request
from hookgw.instances.fields import SETTINGS
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import Conflict, Invalid, TooManyRequests, Unavailable
from hookgw.kernel.json_text import decode_strict, encode_strict
from hookgw.kernel.long_json import finish
from hookgw.kernel.masking import mask_secrets
from hookgw.kernel.network_json import PART, LeftOut, read_network_json
from hookgw.kernel.target_url import Origin
from hookgw.kernel.units import Size
from hookgw.plugins.contained_connector import ContainedConnector
from hookgw.records.chats import split_by_chat
from hookgw.records.connectors import MAX_STATE, ConnectionState, FetchedFile, Missed, NewEvent, QRCode
from hookgw.records.events import Catalog, Event, event_id_of, new_event_id
from hookgw.records.inline_media import unmarked
from hookgw.records.instances import Instance, InstanceSettings
from hookgw.store import ConnectorState

logger = structlog.get_logger("hookgw.connector")

_T = TypeVar("_T")

_LONGEST_MESSAGE = 2048
"""The longest reason of a connector for a closed connection, in characters."""
_LARGEST_REASON = 2**31

LOGGED_OUT = 401
"""The reason of CONNECTION_UPDATE, known from Baileys, after which receivers want a new login."""
_FEW, _SHORT = 10, 4096
"""So many events, of so many bytes in all, are encoded without a pause."""
_MOST_SPLIT = 1_000
"""So many events of one call may come of lists about several chats; the next lists stay whole."""
_NO_REASON = 200
"""The reason if a connector gives none."""

MOST_CALLS = 256
"""Outgoing calls of a session in progress, from before the call until its events are on disk."""
MOST_UNSTORED_CALLS = 64
"""The lower limit while the store refuses this session's events, which wait in memory."""

_RETRY_CALL = 5.0
"""Seconds after which a refused call may be repeated."""

LoadCoverage = Callable[[str], Awaitable[float | None]]
"""Returns until when a former run of an instance, by its id, has stored everything; ``None`` for unknown."""


async def no_coverage(_instance_id: str) -> float | None:
    await trio.lowlevel.checkpoint()
    return None


LoadState = Callable[[str], Awaitable[Any]]
"""Returns the state that belongs to an instance's id; ``None`` if there is none."""


class Accept(Protocol):
    """Stores events; see :meth:`hookgw.events.accept.EventIntake.accept`."""

    async def __call__(
        self, events: Sequence[Event], *, instance_id: str, state: ConnectorState | None = None
    ) -> object: ...


class EventRules(NamedTuple):
    """The limits for connectors' events: the settings ``events.max_values`` and ``events.max_data``."""

    catalog: Catalog
    max_values: int
    max_data: int


class ConnectorSession(Collaborator):
    """One connected instance. Connectors see it as :class:`hookgw.records.connectors.Session`.

    Attributes:
        connector, pairing_number: as given.
        state, qr_code, sender, profile_name, profile_picture_url: as the connector reported last.
        codes: codes shown since the connection was open.
        closed: when the connection was closed last, with the :func:`kept_reason`.
        close_reason: why the state is ``close``: a sentence.
        close_message: the sentence with which the connector itself has closed the connection, or has failed;
            empty for none.
        has_reported: whether this run of the connector has reported an open or a closed connection.
        is_running, has_begun: whether the connector runs, and has reported any state in this run.
        scope: the connector runs in it; cancel it to end the connector.
        changed: set, and replaced by a new event, when the state or the code changes, or the run ends.
        ended: set when the connector's run has ended for good.
        calls: the scopes of other calls of the connector, which end with the session.
        coverage: until when everything of the network is stored.
    """

    _instance: Instance
    connector: ContainedConnector
    _accept: Accept
    _load_state: LoadState
    _clock: Clock
    _clients: ConnectorClients
    _ingest_urls: IngestUrls
    _media: InboundMedia
    _event_rules: EventRules
    _closing_changed: Callable[[str], None] = lambda _: None
    _event_left_out: Callable[[str, str, str], None] = lambda *_: None
    _former_servers: frozenset[Origin] = frozenset()
    _load_coverage: LoadCoverage = no_coverage
    _report_gap: Callable[[str, float, float], None] = lambda *_: None
    pairing_number: str | None = None

    def __post_init__(self) -> None:
        self.state = ConnectionState.CLOSE
        self.close_reason = "The connector has not reported a connection yet."
        self.close_message = ""
        self.has_reported = False
        self.is_running = False
        self.has_begun = False
        self.qr_code: QRCode | None = None
        self.codes = 0
        self.sender: str | None = None
        self.profile_name: str | None = None
        self.profile_picture_url: str | None = None
        self.closed: tuple[float, int | None] | None = None
        self.scope = trio.CancelScope()
        self.changed = trio.Event()
        self.ended = trio.Event()
        self.calls: set[trio.CancelScope] = set()
        # Those of this run: changed ones count from the next run on.
        self._options = self.connector.option_rules.with_defaults(self._instance.options)
        self._saving = trio.Lock()
        self._http: httpx.AsyncClient | None = None
        self._given_options = self._instance.options
        self._is_closed = False
        self._calls_in_progress = 0
        self.coverage = Coverage(
            lambda: self._instance.catch_up,
            self._clock.wall,
            lambda: self._load_coverage(self.instance_id),
            self.emit_all,
            lambda begin, end: self._report_gap(self.instance, begin, end),
        )
        self._held_back = 0  # how many tasks wait for the store to take their events
        self._holding_reason = ""  # why, as it was logged last

    @property
    def instance(self) -> str:
        return self._instance.name

    @property
    def instance_id(self) -> str:
        """The id of the instance: a later one of its name has another."""
        return self._instance.id

    def use(self, instance: Instance) -> None:
        self._instance = instance

    @property
    def options(self) -> dict[str, Any]:
        return self._options

    @property
    def settings(self) -> InstanceSettings:
        return self._instance.settings

    @property
    def ingest_url(self) -> str | None:
        return self._ingest_urls.url(self._instance, self.connector)

    def secret_texts(self) -> set[str]:
        given = {getattr(self._instance.settings, one.attribute) for one in SETTINGS if one.is_secret}
        return {self._instance.ingest_token, *given} | self.connector.option_rules.secrets(self._options)

    def media_url(self, reference: str, *, mimetype: str = "", file_name: str = "") -> str:
        return self._media.url(self._instance, reference, mimetype=mimetype, file_name=file_name)

    def wants_base64(self) -> bool:
        return self._media.wants_base64(self.instance)

    @property
    def max_data(self) -> int:
        return self._event_rules.max_data

    @property
    def base64_limit(self) -> int:
        return self._media.base64_limit

    @property
    def catalog(self) -> Catalog:
        return self._event_rules.catalog

    @property
    def http(self) -> httpx.AsyncClient:
        if self._http is None:
            self._http = self._clients.of_instance(
                self.instance, lambda: self.servers() | self._former_servers
            )
        return self._http

    def servers(self) -> frozenset[Origin]:
        """Return the listed servers that are this instance's."""
        return self.connector.option_rules.servers(self._given_options)

    async def fetch(self, url: str, *, limit: int) -> FetchedFile:
        return await self._clients.fetch(self.instance, url, limit=limit)

    async def decode_json(
        self, text: bytes, *, events: Sequence[str] = (), left_out: Callable[[bytes], None] | None = None
    ) -> Any:
        def leave_out(event: LeftOut) -> None:
            self._event_left_out(self.instance, self.connector.name, f"The event {event.reason}.")
            if left_out is not None:
                left_out(event.text)

        steps = read_network_json(text, tuple(events), leave_out)
        # A short text is read at once: it need not wait for its turn behind the work of others.
        return finish(steps) if len(text) <= PART else await self.in_turns(steps)

    async def in_turns(self, steps: Generator[None, None, _T]) -> _T:
        return await run_in_slices(self.instance, steps)

    async def emit(self, kind: str, data: Any, *, event_id: str | None = None) -> None:
        await self.emit_all([NewEvent(kind=kind, data=data, event_id=event_id)])

    async def emit_all(self, events: Sequence[NewEvent], *, state: Any = msgspec.UNSET) -> None:
        if state is msgspec.UNSET:
            await self._store(await self._encode_all(events), None)
            return
        kept = ConnectorState(
            instance=self.instance, instance_id=self._instance.id, state_json=encode_state(state)
        )
        # One at a time, in the order of the calls: one with many events, or that is held back, must not
        # overwrite the state of a later call.
        async with self._saving:
            await self._store(await self._encode_all(events), kept)

    async def _encode_all(self, events: Sequence[NewEvent]) -> list[Event]:
        try:
            steps = self._accepted(events)
            is_short = len(events) <= _FEW and sum(len(event.data_json or b"") for event in events) <= _SHORT
            return finish(steps) if is_short else await self.in_turns(steps)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise Invalid.of(
                "connector.data_not_json", "The data of an event is not JSON: {error}.", error=error
            ) from None

    def _accepted(self, events: Sequence[NewEvent]) -> Generator[None, None, list[Event]]:
        now = self._clock.wall()
        accepted: list[Event] = []
        for event in events:
            data_json = self._encode(event)
            # Partitions by chat would wait for each other, for a list about several chats.
            is_list = data_json[:_SHORT].lstrip().startswith(b"[")
            parts = split_by_chat(data_json) if is_list and len(accepted) < _MOST_SPLIT else {}
            for chat, part in parts.items() or [("", data_json)]:
                event_id = event.event_id
                if event_id is not None and parts:
                    event_id = event_id_of(event_id, chat)
                accepted.append(
                    Event(
                        id=event_id or new_event_id(now),
                        kind=event.kind,
                        instance=self.instance,
                        data_json=part,
                        time=now if event.time is None else event.time,
                        sender=event.sender or self.sender,
                    )
                )
            if len(data_json) > _SHORT:
                yield
        return accepted

    def _encode(self, event: NewEvent) -> bytes:
        if event.data_json is None:
            return self._media.encode(self.instance, event.data)
        # Before it is decoded: a network's request may have 16 times as much.
        size = len(event.data_json)
        if size > self.max_data:
            raise Invalid.of(
                "connector.data_too_long",
                "The data of an event has {size:,} bytes; the limit is {limit}.",
                size=size,
                limit=Size(self.max_data),
            )
        # As for what producers send over HTTP: all JSON on disk means the same to every reader.
        try:
            decode_strict(event.data_json, self._event_rules.max_values)
        except ValueError as error:
            raise Invalid.of("connector.data_invalid", "The data of an event {error}.", error=error) from None
        return unmarked(event.data_json)

    def lost_touch(self) -> None:
        self.coverage.lose()

    async def catch_up(self, missed: Missed) -> None:
        await self.coverage.catch_up(missed)

    async def _store(self, events: Sequence[Event], state: ConnectorState | None) -> None:
        if self.coverage.holds:
            refuse_request("What came before is still to be fetched from the network. Retry later.")
        is_held_back = False
        try:
            while True:
                if self._is_closed:
                    refuse_request("The instance's connection has ended. Retry later.")
                    raise Conflict.of(
                        "connector.session_over",
                        "This session of the instance {instance!r} is over.",
                        instance=self.instance,
                    )
                # The same ids each time: if the events were stored after all, the repeats are duplicates.
                try:
                    await self._accept(events, instance_id=self.instance_id, state=state)
                except (Unavailable, TooManyRequests) as error:
                    # Not its own text, which may name files of this machine.
                    refuse_request(
                        "hookgw cannot store events at the moment. Retry later.", error.retry_after
                    )
                    if not is_held_back:
                        is_held_back = True
                        self._held_back += 1
                    reason = str(error)
                    if reason != self._holding_reason:  # not for each event and each try: they are many
                        self._holding_reason = reason
                        logger.warning("connector held back", instance=self.instance, reason=reason)
                    await trio.sleep(error.retry_after)
                else:
                    return
        finally:
            if is_held_back:
                self._held_back -= 1
                if not self._held_back:
                    self._holding_reason = ""
                    logger.info("connector no longer held back", instance=self.instance)

    def begin_call(self) -> None:
        """Count an outgoing call; :meth:`end_call` must follow when it has ended and its events are on disk.

        Raises:
            TooManyRequests: as many calls as allowed are in progress.
        """
        most = MOST_UNSTORED_CALLS if self._held_back else MOST_CALLS
        count = self._calls_in_progress
        if count >= most:
            reason = f"{count} calls of this instance are in progress; at most {most} may be"
            if self._held_back:
                reason += " while their events cannot be stored: the backlog is full, or the disk refuses"
            raise TooManyRequests.of(
                "connector.refused_locally",
                "{reason}. The network was not called; retry later.",
                reason=reason,
                retry_after=_RETRY_CALL,
            )
        self._calls_in_progress += 1

    def end_call(self) -> None:
        self._calls_in_progress -= 1

    async def load_state(self) -> Any:
        return await self._load_state(self._instance.id)

    async def save_state(self, state: Any) -> None:
        await self.emit_all([], state=state)

    async def show_qr_code(self, qr_code: QRCode) -> None:
        # The API shows these values. A wrong type must fail in the connector that reported it.
        qr_code = msgspec.convert(msgspec.to_builtins(qr_code), QRCode)
        self.qr_code = qr_code
        self.codes += 1
        self.announce()
        shown = {"pairingCode": qr_code.pairing_code, "code": qr_code.code, "base64": qr_code.base64}
        await self.emit("QRCODE_UPDATED", {"qrcode": {"instance": self.instance, **shown}})

    async def set_state(self, state: ConnectionState, reason: int = 200, **more: Any) -> None:
        await self._report(ConnectionState(state), int(reason), more, repeats=True)

    async def report_end(self) -> None:
        """Report that hookgw has ended the connection, unless it was closed already."""
        await self._report(ConnectionState.CLOSE, 500, {}, repeats=False)

    async def _report(
        self, state: ConnectionState, reason: int, more: dict[str, Any], *, repeats: bool
    ) -> None:
        """Keep the state, and raise CONNECTION_UPDATE for changes.

        With ``repeats``, another reason of a closed connection is a change, too.
        """
        self.has_begun = True
        self.has_reported = self.has_reported or state is not ConnectionState.CONNECTING
        message = more.get("message") if state is ConnectionState.CLOSE else None
        # A network's own words may repeat the token that it was given.
        said = mask_secrets(message, self.secret_texts()) if isinstance(message, str) else ""
        self.close_message = said[:_LONGEST_MESSAGE]
        former, former_end, code = self.state, self.closed, kept_reason(reason)
        stored = self._instance.disconnection
        last = self.closed[1] if self.closed is not None else stored.code if stored is not None else None
        # After 428 ("connection lost"), a receiver must act on 401 ("logged out"). A report without a reason
        # is no news.
        is_other_end = (
            repeats and former is state is ConnectionState.CLOSE and code not in (last, None, _NO_REASON)
        )
        is_known = former is state and self.closed is not None and not is_other_end and not said
        if state is ConnectionState.CLOSE and not is_known:
            closed = f"The connector reported that it is closed (statusReason {reason})."
            self.close_reason = self.close_message or closed
        self._take_account(more)
        if state is not ConnectionState.CONNECTING:  # a code is of no use once the connection is open
            self.qr_code, self.codes = None, 0
        if state is former and not is_other_end:
            self.announce()  # a first report may say why the connection is closed, as it was before
            return
        self.state = state
        if state is ConnectionState.CLOSE:
            self.closed = self._clock.wall(), code
        end = self.closed
        if state is not ConnectionState.CONNECTING:
            self._closing_changed(self.instance)
        self.announce()
        data = {"instance": self.instance, "state": state.value, "statusReason": reason, **more}
        try:
            await self.emit("CONNECTION_UPDATE", data)
        except (Unavailable, trio.Cancelled):
            # The network repeats a request that is refused or takes too long: the event must come then.
            is_newest = self.state is state and self.closed is end  # nothing was reported while this waited
            if is_answering() and is_newest:
                self.state, self.closed = former, former_end
            raise

    def _take_account(self, more: dict[str, Any]) -> None:
        wuid = more.get("wuid")
        if isinstance(wuid, str):
            self.sender = str.__str__(wuid)
        name, picture = more.get("profileName"), more.get("profilePictureUrl")
        if isinstance(name, str):
            self.profile_name = str.__str__(name)
        if isinstance(picture, str):
            self.profile_picture_url = str.__str__(picture)

    async def close(self, reason: int = LOGGED_OUT) -> None:
        """Report the closed connection, and refuse further events of this session.

        The report waits like :meth:`emit`. If it is cancelled, the session is closed all the same.

        Args:
            reason: the ``statusReason``; by default that of a logout.
        """
        # A plugin may keep the session after its instance is deleted, when another instance has the name.
        for scope in tuple(self.calls):
            scope.cancel()
        try:
            await self._report(ConnectionState.CLOSE, reason, {}, repeats=reason == LOGGED_OUT)
        finally:
            self.refuse_events()

    def refuse_events(self) -> None:
        """Refuse all further events of the session, and events that still wait to be stored."""
        self._is_closed = True

    def abandon(self) -> None:
        """End the session without a report, and accept no more of its events."""
        self.refuse_events()
        for scope in tuple(self.calls):
            scope.cancel()
        self.scope.cancel()

    def announce(self) -> None:
        """Wake the tasks that wait for a change."""
        # A new event each time: a waiter of the next change must not wake for this one.
        self.changed.set()
        self.changed = trio.Event()


def kept_reason(reason: object) -> int | None:
    """Return a ``statusReason`` to keep beside the event; ``None`` for anything but a short whole number.

    Producers may send thousands of digits, and nodes of a fleet send it to each other in MessagePack.
    """
    return reason if type(reason) is int and abs(reason) < _LARGEST_REASON else None


def encode_state(state: Any) -> bytes:
    """Return a connector's state as JSON.

    Raises:
        Invalid: JSON cannot express it, or it is too large.
    """
    try:
        text = encode_strict(state)
    except ValueError as error:
        raise Invalid.of("connector.state_invalid", "The state {error}.", error=error) from None
    if len(text) > MAX_STATE:
        raise Invalid.of(
            "connector.state_too_long",
            "The state has {bytes:,} bytes as JSON; at most {most:,} are kept.",
            bytes=len(text),
            most=MAX_STATE,
        )
    return text
