"""The chats of an instance, read from the log of its events, and the messages of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote, urlencode

from quart import Response, request

from hookgw.instances.pages.tabs import CHATS, TABS
from hookgw.kernel.errors import HookgwError
from hookgw.messages.bubbles import Bubble, Words, bubbles_of, last_words
from hookgw.messages.changes import CHANGES
from hookgw.messages.chats import MESSAGES
from hookgw.messages.pages.text_form import send_text
from hookgw.messages.requests import MAX_NUMBER
from hookgw.records.api_keys import Right
from hookgw.records.browser_sessions import new_token
from hookgw.records.chats import GROUP, HIDDEN, NUMBER, plain_jid
from hookgw.site.page_paths import instance_path
from hookgw.site.site import Form, Page, Site, visitor
from hookgw.store import EventQuery, LoggedEvent

PAGE = 50
"""Messages of a chat on a page, and their changes."""
EDIT_SECONDS = 3600.0
"""A message of WhatsApp can be edited for a quarter of an hour; an event may come later."""
MOST_EDITS = 200
"""Edits by people that are looked at for a page of a chat."""
MOST_NAMES = 4
"""Names of one chat that are looked for: a person has one with the number, and one that hides it."""


class Row(NamedTuple):
    """A chat in the list.

    Attributes:
        name: of the person; the network's name of the chat if that is unknown.
        at: when its newest message came, in seconds since the epoch.
        query: leads to it.
    """

    id: str
    name: str
    is_group: bool
    at: float
    from_me: bool
    words: Words
    query: str


class ChatPart(NamedTuple):
    """A page of a chat.

    Attributes:
        names: all names of the chat that are known now.
        older: the query of the page before; ``None`` if there is none.
    """

    bubbles: list[Bubble]
    names: tuple[str, ...]
    older: str | None


class ChatsPage(Page):
    def __init__(self, site: Site) -> None:
        super().__init__(site)
        path = "/instances/<instance>/chats"
        site.add(path, self.show, Right.PAYLOADS)
        site.add("/live/chats/<instance>", self.live, Right.PAYLOADS)
        site.add(f"{path}/send", self.send, Right.SEND, "POST", page="/instances/{instance}/chats")

    async def show(self, instance: str) -> Response:
        return await self._page(instance, _asked(request.args.getlist("name")))

    async def _page(
        self,
        instance: str,
        names: Sequence[str],
        *,
        form: Form | None = None,
        error: HookgwError | None = None,
    ) -> Response:
        instances = self._gateway.instances
        found, cursor = instances.get(instance), request.args.get("cursor") or None
        now, part = "", None
        try:
            if names:
                part = await self._read(instance, names, cursor)
                now, names = await self._bubbles(instance, part), part.names
            else:
                now = await self._list(instance, cursor)
        except HookgwError as unread:
            error = error or unread
        query = "?" + urlencode([("name", one) for one in names]) if names else ""
        return await self._site.render(
            "chat.html" if names else "chats.html",
            instance=found,
            tab=CHATS,
            tabs=TABS,
            now=now,
            live=None if cursor else f"/live/chats/{quote(instance)}{query}",
            chat=names[0] if names else "",
            names=names,
            title=_title(names, part),
            may_send="sendText" in instances.capabilities(instance) or not found.integration,
            # The same for each repetition of this form: a second click sends nothing again.
            once=new_token(),
            form=form,
            error=error,
        )

    async def live(self, instance: str) -> Response:
        found = self._gateway.instances.get(instance)
        names = _asked(request.args.getlist("name"))

        async def render() -> str:
            if names:
                return await self._bubbles(instance, await self._read(instance, names, None))
            return await self._list(instance, None)

        return self._streams.open(("chats", found.id, tuple(names)), render, instance=instance)

    async def _list(self, instance: str, cursor: str | None) -> str:
        page = await self._gateway.chats.page(instance, cursor)
        rows = [
            Row(
                chat.jid,
                chat.name or chat.jid.partition("@")[0],
                chat.is_group,
                chat.updated_at,
                chat.last_message.key.get("fromMe") is True,
                last_words(chat.last_message),
                urlencode({"name": chat.jid}),
            )
            for chat in page.chats
        ]
        return await self._site.fragment(
            "chats_now.html",
            path=instance_path(instance, "chats"),
            rows=rows,
            older=urlencode({"cursor": page.cursor}) if page.cursor else None,
            is_first=cursor is None,
        )

    async def _read(self, instance: str, names: Sequence[str], cursor: str | None) -> ChatPart:
        # A message may say that a chat has another name, too, which other messages have alone.
        while True:
            page = await self._gateway.history.list_events(
                EventQuery(
                    instance=instance,
                    kinds=(*MESSAGES, *CHANGES),
                    chat=names[0],
                    chat_names=tuple(names[1:]),
                    cursor=cursor,
                    limit=PAGE,
                )
            )
            bubbles = bubbles_of(page.events)
            known = dict.fromkeys([*names, *(name for one in bubbles for name in one.names)])
            grown = tuple(known)[:MOST_NAMES]
            if len(grown) == len(names) or cursor is not None:
                break
            names = grown
        if edits := await self._edits_by_people(instance, names, page.events):
            merged = sorted([*edits, *page.events], key=lambda one: one.accepted_at, reverse=True)
            bubbles = bubbles_of(merged)
        older = None
        if page.cursor is not None:
            older = urlencode([*(("name", one) for one in names), ("cursor", page.cursor)])
        return ChatPart(bubbles, tuple(names), older)

    async def _edits_by_people(
        self, instance: str, names: Sequence[str], events: Sequence[LoggedEvent]
    ) -> Sequence[LoggedEvent]:
        """Return the edits by people that may concern these events of a person's chat.

        Evolution API names the account itself as the chat of such an edit, as the person who made it sees it.
        """
        account = next((one.event.sender for one in events if one.event.sender), None)
        if account is None or not any(plain_jid(name).endswith((NUMBER, HIDDEN)) for name in names):
            return ()
        query = EventQuery(
            instance=instance,
            kinds=CHANGES,
            chat=account,
            since=events[-1].accepted_at,
            until=events[0].accepted_at + EDIT_SECONDS,
            limit=MOST_EDITS,
        )
        return (await self._gateway.history.list_events(query)).events

    async def _bubbles(self, instance: str, part: ChatPart) -> str:
        return await self._site.fragment(
            "chat_now.html",
            path=instance_path(instance, "chats"),
            bubbles=part.bubbles,
            # In a chat with one person, the title has the name.
            names_authors=_is_group(part.names) or len({one.author for one in part.bubbles} - {""}) > 1,
            older=part.older,
        )

    async def send(self, instance: str) -> Response:
        form = await self._site.form()
        names = _asked(form.all("name"))
        number = names[0] if names else form.get("number")
        try:
            await send_text(self._gateway, instance, number, form)
        except HookgwError as error:
            if not visitor().has(Right.PAYLOADS):
                raise
            return await self._page(instance, names, form=form, error=error)
        path = instance_path(instance)
        if not visitor().has(Right.PAYLOADS):
            return self._site.redirect(path, done="sent")
        pairs = urlencode([*(("name", one) for one in names or [number]), ("done", "sent")])
        return self._site.redirect(f"{path}/chats?{pairs}")


def _asked(names: Sequence[str]) -> list[str]:
    return [name.strip()[:MAX_NUMBER] for name in names if name.strip()][:MOST_NAMES]


def _is_group(names: Sequence[str]) -> bool:
    return names[0].endswith(GROUP)


def _title(names: Sequence[str], part: ChatPart | None) -> str:
    """Return the name of the person, as it was in the newest message that has one; else that of the chat."""
    authors = [one.author for one in part.bubbles if one.author] if part is not None else []
    if not names or _is_group(names) or not authors:
        return names[0].partition("@")[0] if names else ""
    return authors[-1]
