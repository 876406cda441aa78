"""The connector interface: plugin code that connects instances to a messaging network. No I/O."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from hookgw.records.events import Catalog
from hookgw.records.instances import InstanceSettings
from hookgw.records.messages import Message, MessageKey, MessageQuery

if TYPE_CHECKING:
    # Importing httpx takes about 100 ms; commands that only load models should not pay for an annotation.
    import httpx

T = TypeVar("T")

MAX_STATE = 2**20
"""The most bytes of a connector's state, as JSON."""


class ConnectionState(StrEnum):
    """The state of an instance's connection, in the words of the HTTP API.

    Attributes:
        OPEN: messages can be sent.
        CONNECTING: the connector connects, or waits for a code to be scanned.
        CLOSE: there is no connection.
    """

    OPEN = "open"
    CONNECTING = "connecting"
    CLOSE = "close"


class QRCode(msgspec.Struct, frozen=True, kw_only=True):
    """A code to scan with the account's phone.

    Attributes:
        code: the text in the code.
        base64: the picture, as a ``data:image/png;base64,…`` URL.
        pairing_code: a code to type instead of scanning.
    """

    code: str
    base64: str
    pairing_code: str | None = None


class NewEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that a connector raises.

    Attributes:
        kind: of the catalog, such as ``MESSAGES_UPSERT``.
        data: the payload.
        data_json: the payload as JSON in UTF-8, in place of ``data``. It reaches receivers byte for byte: the
            order of names and the spelling of numbers survive, and a file in it is not marked as base64.
        event_id: made with :func:`hookgw.event_id_of` from the network's ids, so that the same happening
            raises one event even if the network reports it again; ``None`` for a new id.
        time: when it happened, in seconds since the epoch; ``None`` for now.
        sender: the ``sender`` of the event's envelope; ``None`` for the account that the session reported
            (``wuid``).
    """

    kind: str
    data: Any = None
    data_json: bytes | None = None
    event_id: str | None = None
    time: float | None = None
    sender: str | None = None


class IngestRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that the network sent to an instance's ``ingestUrl``.

    Attributes:
        method: ``GET`` or ``POST``.
        path: what follows ``ingestUrl`` in the path of the URL, decoded, without a slash before it: of
            ``<ingestUrl>/messages-upsert``, ``messages-upsert``. Mostly empty.
        query: the parameters of the URL; of a repeated name, the first.
        query_string: the same as it arrived, without the ``?``.
        headers: by name in lower case; of a repeated name, the first.
        body: the bytes as they arrived. Check the network's proof on these.
    """

    method: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    path: str = ""
    query_string: str = ""

    # It holds the network's proof.
    def __repr__(self) -> str:
        return f"IngestRequest(method={self.method!r}, body=<{len(self.body)} bytes>)"


class IngestResponse(msgspec.Struct, frozen=True, kw_only=True):
    """What the network gets back.

    Attributes:
        status: of the HTTP response: 200 to 599. Networks do not repeat a request after a 4xx.
        body: of the response; none with the status 204 or 304.
        content_type: of the body; printable ASCII.
    """

    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"


class MediaSink(Protocol):
    """Takes the content of an inbound file."""

    async def begin(self, *, mimetype: str, size: int | None = None, file_name: str = "") -> None:
        """Begin the response. ``size`` is its length in bytes, if the network says it.

        Raises:
            TooLarge: the size exceeds ``media.limit``. Let the exception pass.
            ValueError: the size is not a number of bytes.
            RuntimeError: it has begun already.
        """

    async def write(self, chunk: bytes) -> None:
        """Send a part of the content on. Waits for a slow reader.

        Raises:
            TooLarge: the file exceeds ``media.limit``. Let the exception pass.
        """


class FetchedFile(bytes):
    """The content of a file that :meth:`Session.fetch` read.

    Attributes:
        mimetype: the media type as the server of the file says it, such as ``image/png``; empty if it says
            none. It is unchecked.
    """

    mimetype: str

    def __new__(cls, content: bytes | bytearray, *, mimetype: str = "") -> FetchedFile:
        """Make it of the content."""
        made = super().__new__(cls, content)
        made.mimetype = mimetype
        return made


Missed = Callable[[float, float], AsyncGenerator[Sequence[NewEvent], None]]
"""An async generator: yields a network's events between two moments, page by page. See
:meth:`Session.catch_up`."""


class Session(Protocol):
    """The gateway's side of one connected instance. The gateway creates it and passes it to the connector."""

    @property
    def instance(self) -> str:
        """The instance's name."""

    @property
    def options(self) -> dict[str, Any]:
        """The connector's options of this instance."""

    @property
    def settings(self) -> InstanceSettings:
        """How the account should behave, as it was set last."""

    @property
    def pairing_number(self) -> str | None:
        """The digits of the account's phone number, if the caller of ``connect`` wants a code to type.

        A network that has such codes shows one beside the QR code (``QRCode.pairing_code``).
        """

    @property
    def catalog(self) -> Catalog:
        """All known event kinds; ``catalog.resolve(spelling, where)`` finds one of them in any spelling."""

    @property
    def http(self) -> httpx.AsyncClient:
        """The client for the network's API: it checks every connection with the address guard.

        Of the servers that the operator lists in the connector's plugin options, it also reaches those that
        this instance's options name (``"x-server": true`` in the schema). The gateway closes it. For a URL
        that a tenant gave, use :meth:`fetch`. A request that waits for news has ``extensions={"long_poll":
        True}``: an instance makes one of them at a time, and no other request waits for it.
        """

    async def fetch(self, url: str, *, limit: int) -> FetchedFile:
        """Return the file at a URL that a tenant gave.

        The address guard has no exceptions here: none of the operator's servers is reached, however the URL
        spells it. At most three redirects are followed, and each is checked.

        Args:
            url: http or https.
            limit: the most bytes that the file may have.

        Returns:
            The content, with the media type that the file's server said.

        Raises:
            Invalid: the file cannot be read, or is larger; the message is a sentence for the caller.
            NetworkRefused: the memory for answers is full (503).
        """

    async def decode_json(
        self, text: bytes, *, events: Sequence[str] = (), left_out: Callable[[bytes], None] | None = None
    ) -> Any:
        """Return the value of JSON that the network sent, as :func:`hookgw.decode_json` does.

        A long text is read in short steps, between which other instances have their turns. An event with more
        than 20,000 JSON values, and any other such part, is left out, with a warning in the log and an
        EVENT_LEFT_OUT for the operator.

        Args:
            text: the JSON.
            events: where events are in it, such as ``/rooms/*/timeline/#``: names, ``*`` for all members of
                an object, and ``#`` for the items of a list. An empty text stands for the whole text. A list
                of events becomes :class:`hookgw.NetworkEvents`, which decodes them whenever you iterate it;
                do that in :meth:`in_turns`, because there may be many.
            left_out: called with the beginning of each event that is left out, at most 256 KiB.

        Raises:
            EventLeftOut: the whole text is an event, and is left out. Let the exception pass: it makes an
                answer 200 of :meth:`OptionalCalls.ingest`, because a network would repeat anything else.
            ValueError: the text is not JSON, is nested too deeply, or has too many values beside its events.
        """

    async def in_turns(self, steps: Generator[None, None, T]) -> T:
        """Run a long computation in short slices, between which other instances have their turns.

        Args:
            steps: the computation; it yields wherever it may be interrupted, which should be within 1 ms.

        Returns:
            What the computation returns.
        """

    @property
    def ingest_url(self) -> str | None:
        """Where the network may call hookgw; ``None`` if the connector has no method ``ingest``.

        Without ``server.public_url`` it is a path.
        """

    async def emit(self, kind: str, data: Any, *, event_id: str | None = None) -> None:
        """Store an event. Return once it is on disk. It waits while the gateway cannot store it.

        Raises:
            Invalid: the kind is unknown, or the payload violates its schema in strict mode.
            TooLarge: the event exceeds a limit on its own, so that there will never be room for it.
            Conflict: this session is over.
            Unavailable: in a call of ``ingest``, which must not wait: the event cannot be stored now.
        """

    async def emit_all(self, events: Sequence[NewEvent], *, state: Any = msgspec.UNSET) -> None:
        """Store events, and with them the connector's state, in one commit: all of it or nothing.

        After a kill, a connector that continues from its state repeats nothing and misses nothing. Events
        with ids that were stored before are left out; the state is stored all the same. A list about several
        chats is stored as an event for each, with an id that follows from that of the list.

        Args:
            events: in their order; may be empty.
            state: as for :meth:`save_state`; by default it stays as it is.

        Raises:
            Invalid, TooLarge, Conflict, Unavailable: see :meth:`emit`. Nothing was stored.
        """

    async def load_state(self) -> Any:
        """Return the state that was saved last, also before a restart; ``None`` if there is none.

        Raises:
            Unavailable: the state cannot be read now.
        """

    async def save_state(self, state: Any) -> None:
        """Keep a JSON value of at most 1 MiB: the login, tokens, cursors. It is deleted with the instance.

        Raises:
            Invalid: JSON cannot express it, or it is too large.
            Conflict: this session is over.
        """

    async def show_qr_code(self, qr_code: QRCode) -> None:
        """Store the code for ``/instance/connect`` and emit QRCODE_UPDATED."""

    async def set_state(self, state: ConnectionState, reason: int = 200, **more: Any) -> None:
        """Store the state. If it changed, emit CONNECTION_UPDATE with ``more`` in its data.

        Report ``open`` only once a send works. ``more`` may contain ``wuid`` (the account, which becomes the
        events' ``sender``) and ``profileName``, and with ``close`` a ``message``: a sentence that says why,
        and what to do. The HTTP API shows it as the reason of the state.
        """

    def media_url(self, reference: str, *, mimetype: str = "", file_name: str = "") -> str:
        """Return a link to an inbound file, to put into an event. It is signed and expires.

        Args:
            reference: what :meth:`OptionalCalls.open_media` needs to find the file; it is in the link, where
                receivers can read it.
            mimetype, file_name: for the headers of the response.
        """

    def wants_base64(self) -> bool:
        """Return whether a registration of the instance wants media inside its events.

        If so, put a file of at most :attr:`base64_limit` bytes into ``message.base64`` of the event's data.
        hookgw removes it for registrations that do not ask for it, and if it does not fit.
        """

    @property
    def max_data(self) -> int:
        """The most bytes of an event's data. Refuse a body that is to become one before you decode it."""

    @property
    def base64_limit(self) -> int:
        """The bytes of the largest file that fits into an event as base64; 0 if none does."""

    def lost_touch(self) -> None:
        """Say that reports of the network may get lost from now on, or were before this run.

        Until :meth:`catch_up` has stored them, new events in calls of ``ingest`` raise ``Unavailable``: the
        network repeats them, and they come after what was missed. Call it when a run begins, and when the
        network's server cannot be reached.
        """

    async def catch_up(self, missed: Missed) -> None:
        """Store what the network has from the time without it.

        Call it whenever the network's server was reached, before you report ``open``. Nothing happens unless
        this run is new, or has called :meth:`lost_touch`. Then ``missed`` is called with the bounds of one
        span of time after the other. Events that were stored before, by their ids, are left out; so make them
        from kind, chat and message, as for reports. If it raises, call it again later: it continues.

        The user limits the events and the time (the option ``catchUp``). Beyond, INSTANCE_GAP is raised; also
        if ``missed`` raises ``NetworkRefused`` three times in a row and for a minute: this then goes on
        without what is left.

        Args:
            missed: yields pages of events of the time between two moments, in seconds since the epoch, both
                included. It raises ``NotSupported`` if the network has no history.
        """


class Connector(Protocol):
    """Connects instances to one messaging network.

    Only ``name``, :meth:`run` and :meth:`send` are required. A call whose method is missing, or raises
    :class:`~hookgw.kernel.errors.NotSupported`, is answered with 501. Besides these it may have

    - ``options_schema``: a JSON Schema of an instance's options, with ``"writeOnly": true`` at secrets, and
      ``"x-server": true`` at the URL of the network's server (see :attr:`Session.http`). Without a schema, an
      instance takes any options, and all of them count as secrets;
    - ``message_types``: the classes of messages that :meth:`send` takes; by default texts alone.
    """

    name: str
    """The value of ``integration`` that selects this connector."""

    async def run(self, session: Session) -> None:
        """Connect, then emit events until cancelled or logged out.

        The gateway runs this in a separate task and cancels it on logout, deletion and shutdown. If it
        raises, the gateway starts it again after a growing wait. Returning means that the account is logged
        out, if this run has reported ``open`` or ``close``. Otherwise it is a failure.
        """

    async def send(self, session: Session, message: Message, *, key: str) -> dict[str, Any]:
        """Send a message. The gateway calls this only while the state is ``open``.

        Args:
            session: of the instance.
            message: one of ``message_types``.
            key: the same for each repetition of this send: pass it to the network where the network can
                detect a repetition.

        Returns:
            The message, as ``data`` of SEND_MESSAGE. The gateway emits that event.

        Raises:
            NetworkRefused: the network refused; its reason is the message.
            Invalid: the number or the message cannot be sent.
            NotSupported: the network has no such message.
        """


class OptionalCalls(Protocol):
    """The methods that a connector may have beside those of :class:`Connector`.

    All of them may raise ``NetworkRefused``, ``Invalid`` and ``NotSupported``.
    """

    async def ingest(self, session: Session, request: IngestRequest) -> IngestResponse:
        """Answer a request of the network, after its events are on disk (see :meth:`Session.emit_all`).

        Raises:
            ProofRefused: the network's proof is missing or wrong; compare in constant time.
            Invalid: the request is malformed.
            TooLarge: its events exceed a limit on their own.
            Unavailable: try again later.
        """

    async def mark_read(self, session: Session, keys: Sequence[MessageKey]) -> None:
        """Mark messages as read."""

    async def set_presence(
        self, session: Session, presence: str, *, number: str | None, delay: float
    ) -> None:
        """Show a presence: ``available``, ``unavailable``, ``composing``, ``recording`` or ``paused``.

        Args:
            session: of the instance.
            presence: the word.
            number: the chat that sees it; ``None`` for the account as a whole.
            delay: seconds after which the presence ends.
        """

    async def edit(self, session: Session, key: MessageKey, text: str, *, number: str) -> dict[str, Any]:
        """Replace the text of a message. Return ``data`` of MESSAGES_EDITED, which the gateway emits."""

    async def delete(self, session: Session, key: MessageKey) -> dict[str, Any]:
        """Delete a message for everyone. Return ``data`` of MESSAGES_DELETE, which the gateway emits."""

    async def settings(self, session: Session, settings: InstanceSettings) -> None:
        """Apply changed settings. A new run finds them in its session."""

    async def restart(self, session: Session) -> None:
        """Prepare a restart of the connection: the gateway then ends :meth:`Connector.run`, and starts it."""

    async def check_options(self, options: dict[str, Any], *, public_url: str | None) -> None:
        """Check the options of an instance that is created, or changed, beyond what the schema says.

        Args:
            options: valid by the schema, with the schema's defaults.
            public_url: where the network reaches hookgw (``server.public_url``); ``None`` if it is not set.

        Raises:
            Invalid: a sentence that says what is wrong, and what would be right. Nothing is stored.
        """

    async def logout(self, session: Session) -> None:
        """Log the account out of the network: a client called ``DELETE /instance/logout/<instance>``.

        The gateway ends :meth:`Connector.run` afterwards, also if this fails. It is not called when the
        network itself has logged the account out.
        """

    async def remove(self, session: Session) -> None:
        """Undo the connector's changes on the network, such as a webhook: the instance is deleted.

        Called while the connector runs. The instance is deleted in any case. The account stays logged in.
        """

    async def find_numbers(self, session: Session, numbers: Sequence[str]) -> list[dict[str, Any]]:
        """Return ``{"number", "exists", "jid"}`` for each number, in their order."""

    async def find_picture(self, session: Session, number: str) -> dict[str, Any]:
        """Return ``{"wuid", "profilePictureUrl"}`` of an account or a group; without a picture, ``null``."""

    async def find_messages(self, session: Session, query: MessageQuery) -> dict[str, Any]:
        """Return ``{"messages": {"total", "pages", "currentPage", "records"}}``, as the network has them.

        Only for networks that keep messages themselves, and that can be asked while the account is closed,
        too. Of other networks, hookgw finds them in its history.
        """

    async def list_groups(self, session: Session, *, with_participants: bool) -> list[dict[str, Any]]:
        """Return ``{"id", "subject", "size", …}`` of each group of the account.

        Args:
            session: of the instance.
            with_participants: whether each also has ``participants``, a list of ``{"id", "admin"}``.
        """

    async def find_group(self, session: Session, group: str) -> dict[str, Any]:
        """Return a group with its participants; see :meth:`list_groups`.

        Raises:
            NotFound: there is no such group, or the account is not in it.
        """

    async def media_reference(self, session: Session, key: MessageKey) -> str | None:
        """Return the reference for :meth:`open_media` of the file of a message.

        hookgw asks for a message in whose event there is no link to the file. ``None`` if there is none.
        """

    async def open_media(self, session: Session, reference: str, sink: MediaSink) -> None:
        """Send an inbound file to a sink, with the connector's own credentials.

        Raises:
            NotFound: the network no longer has it.
        """
