"""One bot on its Bot API server: what survives a restart, and how updates become stored events."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import structlog
import trio

from hookgw import Invalid, NetworkRefused, NewEvent, Session
from hookgw import connectors as kit
from hookgw.connectors import mapping, number, text

from . import events
from .client import Client, Refused
from .content import file_of
from .events import Bot
from .options import Options

logger = structlog.get_logger("hookgw.telegram")

MOST_FILES = 8 * 2**20
"""Bytes of files in the events that wait for a commit."""
_KNOWN = 5_000
_DOUBT = 3.0


class TokenRefused(Exception):
    """The server does not accept the token, and only people can change that."""

    def __init__(self, error: NetworkRefused) -> None:
        super().__init__(
            f"Telegram does not accept the bot's token ({error}). Get the current one from @BotFather, set "
            "the option bot_token (PATCH /instance/options), and connect the instance."
        )


class State(msgspec.Struct, kw_only=True):
    """What survives a restart. It is stored in one commit with the events that it belongs to.

    Attributes:
        bot: the user id of the bot that the rest belongs to.
        offset: the update that the next poll asks for: Telegram forgets those before it. 0 at first.
        secret: what proves Telegram's requests to ingestUrl; empty before the first webhook.
    """

    bot: str = ""
    offset: int = 0
    secret: str = ""

    __repr__ = kit.repr_without("secret")


class Connection:
    """A connected bot.

    Args:
        session: of the instance.
        options: of the instance.
        state: what is kept from the last run.
        nursery: for what must not hold up the next update.

    Attributes:
        client: makes the requests.
        receiving: held while an update of a webhook becomes events, so that they are stored in order.
        changing_webhook: held while the webhook is set or deleted.
        is_leaving: whether the webhook was deleted for good.
    """

    def __init__(self, session: Session, options: Options, state: State, nursery: trio.Nursery) -> None:
        self.session = session
        self.options = options
        # Another bot's updates have other numbers, and its secret must not prove this bot's requests.
        self.state = state if state.bot == options.bot else State(bot=options.bot)
        self.client = Client(session, options.base_url, options.bot_token)
        self.receiving = trio.Lock()
        self.changing_webhook = trio.Lock()
        self.is_leaving = False
        self._nursery = nursery
        self._done: kit.Recent[tuple[str, ...], bool] = kit.Recent(_KNOWN)
        self._file_time = 0.0
        self._files = 0

    @property
    def bot(self) -> Bot:
        """What the translation of updates has to know."""
        return Bot(
            id=self.options.bot,
            media_url=self.session.media_url,
            has_done=lambda *what: self._done.get(what) is True,
            now=time.time(),
            groups_ignore=self.session.settings.groups_ignore,
        )

    def note(self, *what: str, is_done: bool = True) -> None:
        """Keep what hookgw did itself; see :class:`~plugins.telegram.events.Bot`."""
        self._done.put(what, is_done)

    async def profile_name(self) -> str:
        """Ask who the bot is: the check of the token."""
        me = mapping(await self.client.get("getMe"))
        return text(me.get("first_name")) or text(me.get("username")) or self.options.bot

    async def check_refusal(self, error: Refused, *, was_open: bool) -> None:
        """Check that the server accepts the token after all.

        Args:
            error: with which it has refused the token.
            was_open: whether the token was right before. A refusal closes the connection until people connect
                it again, so one alone is not enough then.

        Raises:
            TokenRefused: it refuses the token.
        """
        if was_open:
            await trio.sleep(_DOUBT)
            try:
                await self.profile_name()
            except Refused as again:
                if again.is_unauthorized:
                    raise TokenRefused(error) from None
            except kit.Unreachable:
                pass  # the next request finds out
            return
        raise TokenRefused(error)

    async def webhook_secret(self) -> str:
        """Return the secret of the webhook. A new one is stored before Telegram gets it."""
        if not self.state.secret:
            self.state.secret = secrets.token_urlsafe(32)
            await kit.save_state(self.session, self.state)
        return self.state.secret

    async def store(
        self,
        updates: Sequence[Mapping[str, Any]],
        *,
        raw: Callable[[], dict[int, bytes]],
        offset: int | None = None,
        file_time: float,
    ) -> None:
        """Store the events of updates, and with them the offset of the next poll, in one commit.

        Args:
            updates: in order.
            raw: returns them as Telegram wrote them, by their ids.
            offset: the new offset; ``None`` to leave it as it is.
            file_time: the most seconds for files that registrations want inside the events, together.
        """
        self._file_time, self._files = file_time, 0
        batch: list[NewEvent] = []
        translated = await self.session.in_turns(self._translate(updates, raw))
        for update, found in translated:
            if found and found[0].kind == "MESSAGES_UPSERT" and self.session.wants_base64():
                await self._put_file(found[0], update)
            batch += found
        state: Any = msgspec.UNSET
        if offset is not None:
            state = msgspec.to_builtins(msgspec.structs.replace(self.state, offset=offset))
        await kit.emit_valid(self.session, batch, state=state, logger=logger)
        if offset is not None:
            self.state.offset = offset
        for update in updates:
            # Until somebody answers, the app shows that the button is at work.
            if query := text(mapping(update.get("callback_query")).get("id")):
                self._nursery.start_soon(self._answer_button, query)

    def _translate(
        self, updates: Iterable[Mapping[str, Any]], raw: Callable[[], dict[int, bytes]]
    ) -> Generator[None, None, list[tuple[Mapping[str, Any], list[NewEvent]]]]:
        translated = []
        written: dict[int, bytes] | None = None
        catalog = self.session.catalog
        for update in updates:
            try:
                found = events.translate(update, self.bot)
                # The plugin that adds a kind may be switched off.
                if found is None or any(catalog.get(event.kind) is None for event in found):
                    written = raw() if written is None else written
                    one = written.get(number(update.get("update_id")) or 0, b"")
                    found = events.unknown(update, self.bot, one)
                translated.append((update, found))
            except Invalid as error:  # of media_url
                logger.warning(
                    "update refused",
                    instance=self.session.instance,
                    update=number(update.get("update_id")),
                    reason=str(error),
                )
            yield
        return translated

    async def _put_file(self, new: NewEvent, update: Mapping[str, Any]) -> None:
        if (file := file_of(update)) is None:
            return
        began, read = trio.current_time(), partial(self.client.read, file[0])
        seconds = self._file_time if self._files < MOST_FILES else 0
        found = await kit.attach_file(self.session, new, read, size=file[1], seconds=seconds, logger=logger)
        self._file_time -= trio.current_time() - began
        self._files += found or 0

    async def _answer_button(self, query: str) -> None:
        try:
            await self.client.call("answerCallbackQuery", callback_query_id=query)
        except NetworkRefused as error:
            # After a while off, the query is too old to be answered.
            logger.info("button not answered", instance=self.session.instance, reason=str(error))
