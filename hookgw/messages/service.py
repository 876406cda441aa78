"""Sends, edits and deletes messages, and more, through an instance's connector."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from hookgw.concurrency.clock import Clock
from hookgw.core.registry import Registry
from hookgw.instances.connectors.calls import supports
from hookgw.instances.connectors.chat_lines import ChatLines
from hookgw.instances.connectors.outgoing_call import CALL_TIMEOUT, OutgoingCall
from hookgw.instances.connectors.recent_sends import RecentSends, digest_of
from hookgw.instances.connectors.runner import Connectors
from hookgw.instances.connectors.session import ConnectorSession
from hookgw.kernel.errors import HookgwError, NotSupported
from hookgw.records.connectors import NewEvent
from hookgw.records.erased_persons import without_erased
from hookgw.records.events import Catalog, event_id_of
from hookgw.records.messages import Message, MessageKey, MessageQuery

T = TypeVar("T")


def _nothing() -> None: ...


class MessageService:
    """Sends, edits and deletes messages, marks them as read, and shows presences.

    A call that has reached the network raises its events even if the caller is cancelled. All methods raise

    - ``NotFound``: there is no such instance;
    - ``Conflict``: the instance has no connector, or is not connected;
    - ``NetworkRefused``: the network refused or did not answer, or the connector failed;
    - ``NotSupported``: the network has no such call;
    - ``Invalid``: the connector cannot do this;
    - ``TooManyRequests``: too many calls of the instance are in progress, perhaps because their events cannot
      be stored; the network was not called;
    - ``Unavailable``: hookgw is shutting down.
    """

    def __init__(self, registry: Registry, connectors: Connectors, catalog: Catalog, clock: Clock) -> None:
        self._registry = registry
        self._connectors = connectors
        self._catalog = catalog
        self._recent = RecentSends(clock)
        self._lines = ChatLines()

    def require(self, name: str, call: str) -> None:
        """Check that an instance's connector supports a call, whether it is connected or not.

        An instance without a connector passes: its state refuses every call.

        Raises:
            NotFound: there is no such instance.
            NotSupported: its connector does not support the call.
        """
        connector = self._connectors.find(self._registry.instance(name))
        if connector is not None and not supports(connector, call):
            raise NotSupported.of(
                "connector.no_call",
                "The connector {name!r} does not support {call}.",
                name=connector.name,
                call=call,
            )

    async def send(
        self,
        name: str,
        message: Message,
        *,
        key: str | None = None,
        on_ended: Callable[[], None] = _nothing,
        is_there: Callable[[], bool] = lambda: True,
    ) -> dict[str, Any]:
        """Send a message, raise SEND_MESSAGE, and return its data.

        A message with a delay waits for it first, and so do later ones to its chat. If the caller goes away
        meanwhile, it is not sent.

        Args:
            key: the same for each repetition of this send; ``None`` for a new one. A repetition gets the
                outcome of the send in progress, or of a send that succeeded in the last minutes.
            on_ended: called once, when the message is no longer needed, perhaps after this call was
                cancelled.
            is_there: says whether the client is still there.

        Raises:
            Invalid: the connector cannot send this, or the key was used for another message.
        """
        has_begun = False
        try:
            instance = self._registry.instance(name)
            digest = b"" if key is None else digest_of(message)
            if key is not None:
                found = await self._recent.find(instance.id, key, digest, is_there)
                if found is not None:
                    return found
            session = self._connectors.connected(instance)
            place = self._lines.join(session, message)

            def ended(sent: dict[str, Any] | None) -> None:
                place.leave()
                if key is not None:
                    self._recent.end(instance.id, key, sent)
                on_ended()

            make = partial(session.connector.send, session, message, key=key or uuid.uuid4().hex)
            call = OutgoingCall(
                session,
                make,
                partial(self._reported_too, "SEND_MESSAGE"),
                ended,
                wait=place.wait if place.must_wait else None,
            )
            try:
                self._connectors.start_call(call, name)
            except HookgwError:
                place.leave()
                raise
            has_begun = True
            if key is not None:
                self._recent.begin(instance.id, key, digest, call)
        finally:
            if not has_begun:
                on_ended()
        return await call.result(is_there)

    async def mark_read(self, name: str, keys: Sequence[MessageKey]) -> None:
        """Mark messages as read, and raise MESSAGES_UPDATE with the status READ for each."""

        async def make(session: ConnectorSession) -> bool:
            await session.connector.mark_read(session, keys)
            return True

        def events_of(_: bool) -> list[NewEvent]:
            events = []
            for key in keys:
                data = {"keyId": key.id, "remoteJid": key.remote_jid, "fromMe": key.from_me, "status": "READ"}
                if key.participant is not None:
                    data["participant"] = key.participant
                events.append(NewEvent(kind="MESSAGES_UPDATE", data=data))
            return events

        await self._make(self._session(name), make, events_of)

    async def show_presence(self, name: str, presence: str, *, number: str, delay: float) -> None:
        """Show a presence in a chat; see ``OptionalCalls.set_presence``. It raises no event."""

        async def make(session: ConnectorSession) -> bool:
            await session.connector.set_presence(session, presence, number=number, delay=delay)
            return True

        # A connector may return after the presence has ended.
        await self._make(self._session(name), make, most_seconds=CALL_TIMEOUT + delay)

    async def edit(self, name: str, key: MessageKey, text: str, *, number: str) -> dict[str, Any]:
        """Replace the text of a message, raise MESSAGES_EDITED, and return its data."""
        return await self._make(
            self._session(name),
            lambda session: session.connector.edit(session, key, text, number=number),
            partial(self._events, "MESSAGES_EDITED"),
        )

    async def delete(self, name: str, key: MessageKey) -> dict[str, Any]:
        """Delete a message for everyone, raise MESSAGES_DELETE, and return its data."""
        return await self._make(
            self._session(name),
            lambda session: session.connector.delete(session, key),
            partial(self._reported_too, "MESSAGES_DELETE"),
        )

    async def find_numbers(self, name: str, numbers: Sequence[str]) -> list[dict[str, Any]]:
        """Return ``{"number", "exists", "jid"}`` for each number, in their order."""
        return await self._make(self._session(name), lambda it: it.connector.find_numbers(it, numbers))

    async def find_picture(self, name: str, number: str) -> dict[str, Any]:
        """Return ``{"wuid", "profilePictureUrl"}`` of an account or a group."""
        return await self._make(self._session(name), lambda it: it.connector.find_picture(it, number))

    async def list_groups(self, name: str, *, with_participants: bool) -> list[dict[str, Any]]:
        """Return the groups of the account; see ``OptionalCalls.list_groups``."""
        return await self._make(
            self._session(name),
            lambda session: session.connector.list_groups(session, with_participants=with_participants),
        )

    async def find_group(self, name: str, group: str) -> dict[str, Any]:
        """Return a group of the account.

        Raises:
            NotFound: also if the network has no such group.
        """
        return await self._make(self._session(name), lambda it: it.connector.find_group(it, group))

    async def find_messages(self, name: str, query: MessageQuery) -> dict[str, Any] | None:
        """Return messages as the network has them; ``None`` if it keeps none, or cannot be asked now."""
        self._registry.instance(name)
        session = self._connectors.ready_session(name)
        if session is None or "find_messages" not in session.connector.methods:
            return None
        answer = await self._make(session, lambda it: it.connector.find_messages(it, query))
        page = answer.get("messages")
        if isinstance(page, dict) and isinstance(page.get("records"), list):
            records = without_erased(self._registry.instance(name), page["records"])
            answer = {**answer, "messages": {**page, "records": records}}
        return answer

    def _session(self, name: str) -> ConnectorSession:
        return self._connectors.connected(self._registry.instance(name))

    async def _make(
        self,
        session: ConnectorSession,
        make: Callable[[ConnectorSession], Awaitable[T]],
        events_of: Callable[[T], Sequence[NewEvent]] = lambda _: (),
        most_seconds: float = CALL_TIMEOUT,
    ) -> T:
        call = OutgoingCall(session, partial(make, session), events_of, lambda _: None, most_seconds)
        self._connectors.start_call(call, session.instance)
        return await call.result()

    def _reported_too(self, kind: str, data: dict[str, Any]) -> list[NewEvent]:
        # A network may also report what was sent, or deleted, as Evolution API does: with the same id that is
        # one event.
        where = data.get("key", data if kind == "MESSAGES_DELETE" else None)
        parts = (where.get("remoteJid"), where.get("id")) if isinstance(where, dict) else ()
        named = [part for part in parts if isinstance(part, str) and part]
        event_id = event_id_of(kind, *named) if len(named) == 2 else None
        return [replace(event, event_id=event_id) for event in self._events(kind, data)]

    def _events(self, kind: str, data: dict[str, Any]) -> list[NewEvent]:
        # A plugin adds some of the kinds, and may be switched off. The call works all the same.
        return [NewEvent(kind=kind, data=data)] if kind in self._catalog else []
