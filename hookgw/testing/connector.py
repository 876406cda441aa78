"""A scripted connector without a messaging network."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import trio

from hookgw.connectors import text_data
from hookgw.kernel.errors import NetworkRefused, NotFound
from hookgw.plugins.hookspecs import hookimpl
from hookgw.records.connectors import (
    ConnectionState,
    Connector,
    IngestRequest,
    IngestResponse,
    MediaSink,
    Session,
)
from hookgw.records.instances import InstanceSettings
from hookgw.records.messages import Message, MessageKey, TextMessage

Script = Callable[[Session], Awaitable[None]]
IngestScript = Callable[[Session, IngestRequest], Awaitable[IngestResponse]]
MediaScript = Callable[[Session, str, MediaSink], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message that a :class:`FakeConnector` sent."""

    instance: str
    message: Message
    key: str


@dataclass(frozen=True, slots=True)
class ConnectorCall:
    """A call of one of the optional methods of a :class:`FakeConnector`, with its arguments by name."""

    instance: str
    method: str
    arguments: Mapping[str, Any]


async def connect_at_once(session: Session) -> None:
    """Open the connection with an account named after the instance. This is the default script."""
    await session.set_state(ConnectionState.CONNECTING)
    await session.set_state(
        ConnectionState.OPEN, wuid=f"{session.instance}@fake", profileName=session.instance
    )


class FakeConnector:
    """A connector that the test controls. It is also a plugin: pass it to the gateway as one.

    Each run of an instance calls the script, then waits until it is cancelled or ended by :meth:`log_out`.
    To emit events, use the session: ``await connector.session("shop").emit(…)``.

    It has every optional method, sends every type of message, and takes any options. Only ``find_messages``
    and ``media_reference`` are missing, as with most networks: hookgw uses its history.

    Args:
        name: the instances' ``integration``.
        script: called at the start of each run; by default :func:`connect_at_once`. If it raises, the run
            fails, and the gateway restarts it as it restarts any connector.
        without: names of optional methods that it shall not have, such as ``("edit", "delete")``.
        ingest: answers requests of the network; by default with an empty 200.
        open_media: sends a file to the sink; by default one of :attr:`files`.
        message_types: the classes of messages that it sends; by default all.
        options_schema: the JSON Schema of an instance's options.

    Attributes:
        sent: the messages that were sent, in order, without refused ones.
        calls: the calls of optional methods, in order, including refused ones.
        runs: the number of runs so far, over all instances.
        refusal: while this is a sentence or an exception, every message is refused with it.
        faults: an exception for each method that shall raise it, such as
            ``{"edit": NetworkRefused("Too old.", code="OLD", status=409)}``. An exception that is none of
            hookgw's errors is a bug of the connector.
        files: content and type of each inbound file, by its reference.
        pictures: the URL of each profile's picture, by its number.
        groups: the groups of every account, with their participants.
        script: what each run begins with; the test may replace it between two runs.
        answer_ingest: the argument ``ingest``; the test may replace it between two requests.
    """

    def __init__(
        self,
        name: str = "fake",
        *,
        script: Script = connect_at_once,
        without: Collection[str] = (),
        ingest: IngestScript | None = None,
        open_media: MediaScript | None = None,
        message_types: Collection[type] = get_args(Message),
        options_schema: dict[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.message_types = tuple(message_types)
        self.options_schema = options_schema
        self.sent: list[SentMessage] = []
        self.calls: list[ConnectorCall] = []
        self.runs = 0
        self.refusal: str | Exception | None = None
        self.faults: dict[str, Exception] = {}
        self.files: dict[str, tuple[bytes, str]] = {}
        self.pictures: dict[str, str] = {}
        self.groups: list[dict[str, Any]] = []
        self.script = script
        self.answer_ingest = ingest
        self._open_media = open_media
        self._running: dict[str, tuple[Session, trio.Event]] = {}
        for method in without:
            # hookgw looks the methods up once, at start.
            setattr(self, method, None)

    def is_running(self, instance: str) -> bool:
        """Return whether an instance is connected now."""
        return instance in self._running

    def session(self, instance: str) -> Session:
        """Return the session of a running instance.

        Raises:
            KeyError: the instance is not running.
        """
        return self._running[instance][0]

    def log_out(self, instance: str) -> None:
        """End the instance's run, as if the account was logged out on the phone.

        The script must have reported ``open`` or ``close``: without either, the return is a failure.

        Raises:
            KeyError: the instance is not running.
        """
        self._running[instance][1].set()

    def calls_of(self, method: str) -> list[Mapping[str, Any]]:
        """Return the arguments of each call of a method, in order."""
        return [call.arguments for call in self.calls if call.method == method]

    async def run(self, session: Session) -> None:
        """Call the script, then wait until cancelled or logged out."""
        self.runs += 1
        log_out = trio.Event()
        self._running[session.instance] = (session, log_out)
        try:
            await self.script(session)
            await log_out.wait()
        finally:
            # Also after cancellation: session() must never return a session that is over.
            del self._running[session.instance]

    async def send(self, session: Session, message: Message, *, key: str) -> dict[str, Any]:
        """Add the message to :attr:`sent`.

        Returns:
            The ``data`` of SEND_MESSAGE.

        Raises:
            NetworkRefused: :attr:`refusal` is a sentence.
        """
        await self._fail_on_demand("send")
        if isinstance(self.refusal, Exception):
            raise self.refusal
        if self.refusal is not None:
            raise NetworkRefused(self.refusal)
        self.sent.append(SentMessage(session.instance, message, key))
        text = message.text if isinstance(message, TextMessage) else type(message).__name__
        sent = {"remoteJid": f"{message.number}@fake", "fromMe": True, "id": f"FAKE{len(self.sent)}"}
        return {**text_data(sent, text, time.time()), "status": "PENDING"}

    async def ingest(self, session: Session, request: IngestRequest) -> IngestResponse:
        """Answer a request of the network, by default with an empty 200."""
        await self._note(session, "ingest", request=request)
        return await self.answer_ingest(session, request) if self.answer_ingest else IngestResponse()

    async def mark_read(self, session: Session, keys: Sequence[MessageKey]) -> None:
        """Record the call."""
        await self._note(session, "mark_read", keys=keys)

    async def set_presence(
        self, session: Session, presence: str, *, number: str | None, delay: float
    ) -> None:
        """Record the call."""
        await self._note(session, "set_presence", presence=presence, number=number, delay=delay)

    async def edit(self, session: Session, key: MessageKey, text: str, *, number: str) -> dict[str, Any]:
        """Record the call, and return the message with its new text."""
        await self._note(session, "edit", key=key, text=text, number=number)
        shown = {"remoteJid": key.remote_jid, "fromMe": key.from_me, "id": key.id}
        return text_data(shown, text, time.time())

    async def delete(self, session: Session, key: MessageKey) -> dict[str, Any]:
        """Record the call, and return the key of the deleted message."""
        await self._note(session, "delete", key=key)
        return {"remoteJid": key.remote_jid, "fromMe": key.from_me, "id": key.id, "status": "DELETED"}

    async def settings(self, session: Session, settings: InstanceSettings) -> None:
        """Record the call."""
        await self._note(session, "settings", settings=settings)

    async def restart(self, session: Session) -> None:
        """Record the call."""
        await self._note(session, "restart")

    async def check_options(self, options: dict[str, Any], *, public_url: str | None) -> None:
        """Record the call, with an empty name: the instance may not exist yet."""
        arguments = {"options": dict(options), "public_url": public_url}
        self.calls.append(ConnectorCall("", "check_options", arguments))
        await self._fail_on_demand("check_options")

    async def logout(self, session: Session) -> None:
        """Record the call."""
        await self._note(session, "logout")

    async def remove(self, session: Session) -> None:
        """Record the call."""
        await self._note(session, "remove")

    async def find_numbers(self, session: Session, numbers: Sequence[str]) -> list[dict[str, Any]]:
        """Record the call. Every number exists."""
        await self._note(session, "find_numbers", numbers=numbers)
        return [{"number": number, "exists": True, "jid": f"{number}@fake"} for number in numbers]

    async def find_picture(self, session: Session, number: str) -> dict[str, Any]:
        """Record the call. Nobody has a picture but whose number is in :attr:`pictures`."""
        await self._note(session, "find_picture", number=number)
        return {"wuid": f"{number}@fake", "profilePictureUrl": self.pictures.get(number)}

    async def list_groups(self, session: Session, *, with_participants: bool) -> list[dict[str, Any]]:
        """Record the call, and return :attr:`groups`."""
        await self._note(session, "list_groups", with_participants=with_participants)
        left_out = set() if with_participants else {"participants"}
        return [
            {name: value for name, value in group.items() if name not in left_out} for group in self.groups
        ]

    async def find_group(self, session: Session, group: str) -> dict[str, Any]:
        """Return a group of :attr:`groups`.

        Raises:
            NotFound: there is no such group.
        """
        await self._note(session, "find_group", group=group)
        for one in self.groups:
            if one["id"] == group:
                return one
        raise NotFound(f"The network has no group {group!r}.")

    async def open_media(self, session: Session, reference: str, sink: MediaSink) -> None:
        """Send a file of :attr:`files` to the sink.

        Raises:
            NotFound: there is no such file.
        """
        await self._note(session, "open_media", reference=reference)
        if self._open_media is not None:
            await self._open_media(session, reference, sink)
            return
        if reference not in self.files:
            raise NotFound(f"The network has no file {reference!r}.")
        content, mimetype = self.files[reference]
        await sink.begin(mimetype=mimetype, size=len(content))
        await sink.write(content)

    async def _note(self, session: Session, method: str, **arguments: Any) -> None:
        self.calls.append(ConnectorCall(session.instance, method, arguments))
        await self._fail_on_demand(method)

    async def _fail_on_demand(self, method: str) -> None:
        # A real network has a checkpoint here, where the caller can be cancelled.
        await trio.lowlevel.checkpoint()
        if method in self.faults:
            raise self.faults[method]

    @hookimpl
    def hookgw_connectors(self) -> list[Connector]:
        """Provide this connector."""
        return [self]
