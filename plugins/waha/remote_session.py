"""A session on a WAHA server, and hookgw's webhook in its configuration."""

from __future__ import annotations

from typing import Any

import msgspec
import structlog

from hookgw import Session
from hookgw.connectors import Unreachable, mapping, repr_without, save_state, text

from . import webhook
from .client import Client, Refused, names_in
from .options import Options

logger = structlog.get_logger("hookgw.waha")

_UNSEEN = "unseen"
"""In the place of a fingerprint: the server does not show the webhook that was set."""


class State(msgspec.Struct, kw_only=True):
    """What survives a restart.

    Attributes:
        hmac_key: proves the server's requests; made up if the options have none.
        urls: where hookgw's webhook leads, or led, in the session's configuration.
        events: what the server knows of the wanted events; empty for all.
        wanted, shown: fingerprints of the webhook that was set last, and of how the server showed it.
        unlinked: whether restarts no longer help: the next run logs the session out, for a new code.
    """

    hmac_key: str = ""
    urls: list[str] = []
    events: list[str] = []
    wanted: str = ""
    shown: str = ""
    unlinked: bool = False

    __repr__ = repr_without("hmac_key")


class RemoteSession:
    """A session on a WAHA server."""

    def __init__(self, client: Client, session: Session, options: Options, state: State) -> None:
        self._client = client
        self._session = session
        self._options = options
        self._url = session.ingest_url or ""
        self._state = state
        self._has_asked = False

    @property
    def hmac_key(self) -> bytes:
        """Proves the server's requests."""
        return (self._options.hmac_key or self._state.hmac_key).encode()

    async def save(self) -> None:
        """Keep the state."""
        await save_state(self._session, self._state)

    async def call(self, what: str) -> None:
        """Change the session's status: ``start``, ``stop``, ``restart`` or ``logout``."""
        await self._client.call("POST", "sessions", self._options.session, what, body={})

    async def find(self) -> dict[str, Any] | None:
        """Return the session as the server shows it; ``None`` if there is none."""
        try:
            info = await self._client.call("GET", "sessions", self._options.session)
        except Refused as error:
            if error.remote_status == 404:
                return None
            raise
        config = info.get("config") if isinstance(info, dict) else None
        webhooks = config.get("webhooks") if isinstance(config, dict) else None
        # The configuration is sent back with one webhook more: a misunderstanding must not lose the others.
        if (
            not isinstance(info, dict)
            or not text(info.get("status"))
            or not isinstance(config, dict | None)
            or not isinstance(webhooks, list | None)
        ):
            raise Unreachable("The WAHA server's answer does not describe a session. Is base_url right?")
        return info

    async def create(self) -> dict[str, Any]:
        """Make the session, and return it."""
        body = {"name": self._options.session, "start": False, "config": {}}
        await self._client.call("POST", "sessions", body=body)
        return await self._get()

    async def set_webhook(self, info: dict[str, Any]) -> dict[str, Any]:
        """Set hookgw's webhook, unless it is there. Return the session.

        WAHA restarts a session for a change of its configuration, so this must be rare.
        """
        state, key = self._state, self.hmac_key.decode()
        config = mapping(info.get("config"))
        ours, others = webhook.split(config, {self._url, *state.urls})

        def is_set(wanted: dict[str, Any]) -> bool:
            # A server may show a webhook otherwise than it was set, such as without the key, or not at all.
            seen = webhook.fingerprint(ours[0]) if ours else _UNSEEN
            is_as_set = (state.wanted, state.shown) == (webhook.fingerprint(wanted), seen)
            return len(ours) <= 1 and (is_as_set or (bool(ours) and webhook.is_as_wanted(ours[0], wanted)))

        # A server that knew fewer events is asked again by each run: it may have been updated. A refusal
        # restarts nothing.
        asks_again = bool(state.events) and not self._has_asked
        if is_set(webhook.webhook_of(self._url, key, state.events or webhook.EVENTS)) and not asks_again:
            return info
        self._has_asked = True
        if self._url not in state.urls:
            # Before the webhook exists: whenever the process is killed, it is known as hookgw's.
            state.urls.append(self._url)
            await self.save()
        candidates = [list(webhook.EVENTS)]
        for events in candidates:  # the list grows meanwhile
            wanted = webhook.webhook_of(self._url, key, events)
            if len(candidates) > 1 and is_set(wanted):
                return info
            logger.info("setting the webhook of the WAHA session", instance=self._session.instance)
            try:
                await self._put({**config, "webhooks": [*others, wanted]})
            except Refused as error:
                if error.remote_status not in (400, 422) or events == list(webhook.OLD_EVENTS):
                    raise
                # The server knows fewer events. Its refusal mostly lists those that it knows.
                known = names_in(error.words, tuple(events))
                if known and "group.v2.join" not in known:
                    known += names_in(error.words, webhook.FORMER_EVENTS)
                candidates.append(known if 0 < len(known) < len(events) else list(webhook.OLD_EVENTS))
            else:
                state.events = events if len(candidates) > 1 else []
                break
        info = await self._get()
        shown, _ = webhook.split(mapping(info.get("config")), {self._url})
        state.urls = [self._url]
        state.wanted = webhook.fingerprint(wanted)
        state.shown = webhook.fingerprint(shown[0]) if shown else _UNSEEN
        await self.save()
        return info

    async def remove_webhook(self) -> None:
        """Take hookgw's webhook out of the session's configuration."""
        info = await self.find()
        if info is None:
            return
        config = mapping(info.get("config"))
        ours, others = webhook.split(config, {self._url, *self._state.urls})
        if ours:
            await self._put({**config, "webhooks": others})

    async def _get(self) -> dict[str, Any]:
        info = await self.find()
        if info is None:
            raise Unreachable("The session has disappeared from the WAHA server.")
        return info

    async def _put(self, config: dict[str, Any]) -> None:
        await self._client.call("PUT", "sessions", self._options.session, body={"config": config})
