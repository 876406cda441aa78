"""One account on its homeserver: the login, what is known of its rooms, and its calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
import trio

from hookgw import EventLeftOut, Invalid, NetworkRefused, Sentence, Session
from hookgw.connectors import Recent, each, found_at, mapping, number, repr_without, save_state, strings, text

from . import events
from .client import Client, Refused
from .content import poll_options
from .events import Account
from .options import Options

_KNOWN_NAMES = 20_000
_KNOWN_AUTHORS = 20_000
_KNOWN_ROOMS = 5_000
_KNOWN_POLLS = 2_000
_KNOWN_SENDS = 10_000
_MOST_UPGRADES = 20
MOST_JOINS = 100
"""Rooms that are to be joined at a time."""


class LoggedOut(Exception):
    """The homeserver has ended the login, or refuses it, and only people can change that."""


class State(msgspec.Struct, kw_only=True):
    """What survives a restart. It is stored in one commit with the events that it belongs to.

    Attributes:
        homeserver, user: the account that the rest belongs to.
        device: the login's device; only with the same one are echoes of sent messages recognised.
        token: of a login with the password; empty for none.
        since: where the next sync continues; empty before the first one.
        started: the time of the first connect, in milliseconds since the epoch.
        joining: rooms to join after an invitation, and of direct chats the user who invited.
    """

    homeserver: str = ""
    user: str = ""
    device: str = ""
    token: str = ""
    since: str = ""
    started: int = 0
    joining: dict[str, str] = {}

    __repr__ = repr_without("token")


class Connection:
    """A connected account.

    Attributes:
        client: makes the requests.
        encrypted: which rooms are encrypted, where it is known.
        direct: the direct rooms of each user, newest last.
        presence: how the account is shown: ``online`` or ``offline``.
        upgrades: by room, the one that has replaced it; empty for none.
        replaced: by room that has replaced another one, that one, and when: in milliseconds since the epoch,
            or 0.
    """

    def __init__(self, session: Session, options: Options, state: State) -> None:
        self.session = session
        self.options = options
        self.state = state
        self.client = Client(session, options.homeserver)
        self.names: Recent[tuple[str, str], str] = Recent(_KNOWN_NAMES)
        self.authors: Recent[str, str] = Recent(_KNOWN_AUTHORS)
        self.encrypted: Recent[str, bool] = Recent(_KNOWN_ROOMS)
        self.direct: dict[str, list[str]] = {}
        self.presence = "offline"
        self.polls: Recent[str, dict[str, str]] = Recent(_KNOWN_POLLS)
        self.upgrades: Recent[str, str] = Recent(_KNOWN_ROOMS)
        self.replaced: Recent[str, tuple[str, int]] = Recent(_KNOWN_ROOMS)
        self._direct_lock = trio.Lock()
        self._followed: Recent[str, bool] = Recent(_KNOWN_ROOMS)
        self._sent: Recent[str, bool] = Recent(_KNOWN_SENDS)
        self._sending: dict[str, set[trio.Event]] = {}

    @property
    def user(self) -> str:
        """The account's id."""
        return self.state.user

    @property
    def account(self) -> Account:
        """What the translation of events has to know."""
        return Account(
            user=self.user,
            name_in=lambda room, user: self.names.get((room, user)),
            author_of=self.authors.get,
            options_of=self.polls.get,
            media_url=self.session.media_url,
            has_kind=lambda kind: self.session.catalog.get(kind) is not None,
        )

    async def log_in(self) -> str:
        """Log in, unless there is a token, and check the token.

        Returns:
            The account's name to show.

        Raises:
            LoggedOut: the homeserver refuses the login.
            NetworkRefused: it cannot answer now.
        """
        options, state = self.options, self.state
        self.client.token = options.access_token or state.token
        refusal = None
        try:
            if not self.client.token:
                answer = await self.client.post("login", body=self._login())
                # If the next request is refused for a time, there must not be a second login.
                self.client.token = state.token = text(answer.get("access_token"))
            owner = await self.client.get("account", "whoami")
        except Refused as error:
            if error.is_temporary:
                raise
            refusal = error
        if refusal is not None:
            if refusal.is_logged_out and not options.access_token and state.token:
                await self.forget_token()
                if refusal.is_soft_logout:
                    return await self.log_in()
            raise LoggedOut(f"The homeserver refuses the login: {refusal}") from refusal
        user = text(owner.get("user_id"))
        if options.user and user != options.user and user.partition(":")[0] != f"@{options.user}":
            raise LoggedOut(f"The token belongs to {user}, and the option user says {options.user}.")
        if user != state.user or options.homeserver != state.homeserver:
            state = State(homeserver=options.homeserver, user=user)
        state.device = text(owner.get("device_id"))
        state.token = "" if options.access_token else self.client.token
        self.state = state
        # Before anything else: a kill must not leave a login behind that nobody knows.
        await save_state(self.session, state)
        await self.learn_direct_rooms()
        try:
            profile = await self.client.get("profile", user)
        except Refused:
            return user
        return text(profile.get("displayname")) or user

    def _login(self) -> dict[str, Any]:
        login: dict[str, Any] = {
            "type": "m.login.password",
            "identifier": {"type": "m.id.user", "user": self.options.user},
            "password": self.options.password,
            "initial_device_display_name": self.options.device_name,
        }
        if self.state.device and self.state.homeserver == self.options.homeserver:
            login["device_id"] = self.state.device
        return login

    async def forget_token(self) -> None:
        """Log in with the password next time."""
        self.client.token = self.state.token = ""
        await save_state(self.session, self.state)

    async def learn_direct_rooms(self) -> None:
        """Read which rooms are direct chats."""
        path = ("user", self.user, "account_data", "m.direct")
        try:
            # By user: an account may have tens of thousands of such rooms.
            self.note_direct_rooms(await self.client.get(*path, events=("/*",)))
        except Refused as error:
            if error.is_temporary:
                raise
            self.direct = {}  # there are none yet

    def note_direct_rooms(self, content: dict[str, Any]) -> None:
        """Keep the content of the account data ``m.direct``."""
        self.direct = {user: strings(rooms) for user, rooms in content.items() if isinstance(rooms, list)}

    def learn(self, event: dict[str, Any], room: str) -> None:
        """Keep what later events refer to: authors, names, polls, encryption, and upgrades of rooms."""
        id_, sender = text(event.get("event_id")), text(event.get("sender"))
        if id_ and sender:
            self.authors.put(id_, sender)
        if event.get("type") == "m.room.encryption":
            self.encrypted.put(room, True)
        elif event.get("type") == "m.room.member":
            user, member = text(event.get("state_key")), mapping(event.get("content"))
            if name := text(member.get("displayname")):
                self.names.put((room, user), name)
        elif options := poll_options(event):
            self.polls.put(id_, options)
        elif new := events.replacement(event):
            self.upgrades.put(room, new)
            self.replaced.put(new, (room, number(event.get("origin_server_ts")) or 0))

    def is_group(self, room: str) -> bool:
        """Return whether a room is not a direct chat."""
        # The room's first messages can arrive before the homeserver has stored that it is a direct chat.
        is_direct = bool(self.state.joining.get(room))
        return not is_direct and not any(room in rooms for rooms in self.direct.values())

    async def accept(self, room: str) -> None:
        """Join a room after an invitation, and mark it if it is a direct chat.

        Raises:
            NetworkRefused: the homeserver has refused one of the two, or cannot be reached.
        """
        await self._enter(room)
        if inviter := self.state.joining.get(room):
            async with self._direct_lock:
                await self.learn_direct_rooms()
                await self._mark_direct(inviter, room)

    async def _enter(self, room: str) -> None:
        if (replaced := self.replaced.get(room)) is None:
            await self.client.post("rooms", room, "join", body={})
        elif self._followed.get(room) is None:
            await self._follow(room, replaced[0])
            self._followed.put(room, True)

    async def _follow(self, room: str, former: str) -> None:
        """Join a room that replaces another one, if it says so itself.

        Whoever may write a tombstone could lead the account, and what is sent, into any room otherwise.
        """
        created = ("rooms", room, "state", "m.room.create")
        is_known = True
        try:
            content = await self.client.get(*created)
        except Refused as error:
            if error.is_temporary or error.is_logged_out:
                raise
            is_known, content = False, {}  # only members may see it
        if not is_known or found_at(content, "predecessor", "room_id") == former:
            # Nobody has invited the account. A homeserver that does not know the room asks the one in its id.
            server = room.partition(":")[2]
            await self.client.post("join", room, body={}, query={"server_name": server} if server else {})
        if not is_known:
            content = await self.client.get(*created)
        if found_at(content, "predecessor", "room_id") != former:
            if not is_known:
                await self.client.post("rooms", room, "leave", body={})
            reason = f"The room {room} does not say that it replaces {former}."
            raise Refused(403, {"errcode": "M_FORBIDDEN", "error": reason}, None)

    def follow(self, room: str) -> str | None:
        """Note that the room which has replaced another one is to be joined.

        Returns:
            The room to join; ``None`` if there is none, or too many are to be joined already.
        """
        new, joining = self.upgrades.get(room), self.state.joining
        if not new or len(joining) >= MOST_JOINS:
            return None
        # A direct chat stays one.
        joining[new] = next((user for user, rooms in self.direct.items() if room in rooms), "")
        return new

    async def room_to_write_to(self, room: str) -> str:
        """Return a room, or the one that has replaced it, after the account has joined that one.

        Raises:
            NetworkRefused: the account may not join it.
        """
        seen = {room}
        # Members write tombstones: they may be many, or lead back.
        while (new := await self._upgrade_of(room)) and new not in seen and len(seen) <= _MOST_UPGRADES:
            try:
                await self._enter(new)
            except Refused as error:
                raise NetworkRefused(
                    Sentence(
                        "matrix.room_replaced",
                        "The room {room} was replaced by {new}, which the account cannot join: {error}",
                        room=room,
                        new=new,
                        error=error,
                    ),
                    code=error.code,
                    status=error.status,
                    retry_after=error.retry_after,
                ) from error
            seen.add(new)
            room = new
        return room

    async def _upgrade_of(self, room: str) -> str:
        known = self.upgrades.get(room)
        if known is None:
            try:
                content = await self.client.get("rooms", room, "state", "m.room.tombstone")
            except Refused as error:
                if error.is_temporary or error.is_logged_out:
                    raise
                if error.code != "M_NOT_FOUND":
                    return ""  # the account is not in the room; the send says so
                content = {}
            known = events.replacement({"type": "m.room.tombstone", "state_key": "", "content": content})
            self.upgrades.put(room, known)
            if known:
                self.replaced.put(known, (room, 0))
        return known

    async def _mark_direct(self, user: str, room: str) -> None:
        # m.direct is written as a whole: the caller has the lock, and has just read it.
        if room not in (known := self.direct.get(user, [])):
            rooms = {**self.direct, user: [*known, room]}
            await self.client.put("user", self.user, "account_data", "m.direct", body=rooms)
            self.direct = rooms

    async def room_of(self, number: str, where: str = "number") -> str:
        """Return the room for the ``number`` of a call.

        Args:
            number: the id of a room, an alias, or a user, whose direct room is found or created.

        Raises:
            Invalid: it is none of these.
            NetworkRefused: the homeserver knows no such room or user.
        """
        if number.startswith("!") and len(number) > 1:
            return number
        if ":" in number and number.startswith("#"):
            return text((await self.client.get("directory", "room", number)).get("room_id"))
        if ":" in number and number.startswith("@"):
            # Two messages at once must not create two rooms.
            async with self._direct_lock:
                return await self._find_direct_room(number) or await self._create_direct_room(number)
        raise Invalid.of(
            "matrix.number_form",
            "{where}: {number!r} is neither a room (!…), nor an alias (#…:server), nor a user (@…:server).",
            where=where,
            number=number,
        )

    async def _find_direct_room(self, user: str) -> str:
        """Return the direct room with a user, or an empty text if there is none."""
        for room in [room for room, inviter in self.state.joining.items() if inviter == user]:
            try:
                # It may not have happened yet; a second time changes nothing.
                await self.client.post("rooms", room, "join", body={})
            except Refused as error:
                if error.is_temporary:
                    raise
                continue  # the user has taken the invitation back
            return room
        known = self.direct.get(user, [])
        if room := await self._shared(known, user):
            return room
        # Another client of the account may have created one, of which the next /sync will tell.
        await self.learn_direct_rooms()
        return await self._shared([room for room in self.direct.get(user, []) if room not in known], user)

    async def _shared(self, rooms: Sequence[str], user: str) -> str:
        """Return the newest of some direct rooms that a user is in, or is invited to."""
        for room in reversed(rooms):
            try:
                member = await self.client.get("rooms", room, "state", "m.room.member", user)
            except Refused as error:
                if error.is_temporary:
                    raise
                continue  # the account, or the user, was never in it
            if member.get("membership") in ("join", "invite"):
                return room
        return ""

    async def _create_direct_room(self, user: str) -> str:
        try:
            await self.client.get("profile", user)
        except Refused as error:
            # Homeservers also invite users that do not exist. Others keep their profiles to themselves.
            if error.code == "M_NOT_FOUND":
                raise
        created = await self.client.post(
            "createRoom", body={"is_direct": True, "invite": [user], "preset": "trusted_private_chat"}
        )
        room = text(created.get("room_id"))
        self.encrypted.put(room, False)
        self.upgrades.put(room, "")
        try:
            await self._mark_direct(user, room)
        except NetworkRefused:
            # The room is there. A repeated call finds it here, and the next login marks it.
            self.state.joining[room] = user
        return room

    async def is_encrypted(self, room: str) -> bool:
        known = self.encrypted.get(room)
        if known is None:
            try:
                await self.client.get("rooms", room, "state", "m.room.encryption")
                known = True
            except Refused as error:
                if error.code != "M_NOT_FOUND":
                    raise
                known = False
            self.encrypted.put(room, known)
        return known

    async def learn_authors(self, room: str, ids: Sequence[str]) -> None:
        """Ask who sent events, as far as it is not known and the homeserver tells."""
        for id_ in ids:
            if self.authors.get(id_) is None:
                try:
                    path = ("rooms", room, "event", id_)
                    event = await self.client.in_place(partial(self.client.get, *path, events=("",)))
                except EventLeftOut:  # or the next sync would ask again, for ever
                    continue
                except Refused as error:
                    if error.is_temporary:
                        raise
                    continue
                self.learn(event, room)
                if sender := text(event.get("sender")):
                    self.authors.put(id_, sender)

    async def own_reaction(self, room: str, id_: str) -> str | None:
        """Return the id of the account's reaction to a message, if there is one."""
        answer = await self.client.reactions(room, id_)
        for event in each(answer.get("chunk")):
            if event.get("sender") == self.user:
                return text(event.get("event_id")) or None
        return None

    async def send_event(self, room: str, kind: str, content: dict[str, Any], transaction: str) -> str:
        with self._send(room):
            answer = await self.client.put("rooms", room, "send", kind, transaction, body=content)
            id_ = text(answer.get("event_id"))
            if not id_:
                raise NetworkRefused.of(
                    "matrix.no_event_id", "The homeserver did not say which event it stored."
                )
            self.authors.put(id_, self.user)
            self._sent.put(id_, True)
        return id_

    async def redact(self, room: str, id_: str, transaction: str) -> None:
        """Remove the content of an event."""
        with self._send(room):
            answer = await self.client.put("rooms", room, "redact", id_, transaction, body={})
            if redaction := text(answer.get("event_id")):
                self._sent.put(redaction, True)

    async def has_sent(self, room: str, id_: str) -> bool:
        """Return whether hookgw sent an event, in this run.

        Homeservers may report an event before they answer its sender. So this waits for what is being sent.
        """
        for answered in [] if self._sent.get(id_) else [*self._sending.get(room, ())]:
            await answered.wait()
        return self._sent.get(id_) is not None

    @contextmanager
    def _send(self, room: str) -> Iterator[None]:
        answered = trio.Event()
        sending = self._sending.setdefault(room, set())
        sending.add(answered)
        try:
            yield
        finally:
            answered.set()
            sending.discard(answered)
            if not sending:
                self._sending.pop(room, None)
