"""The bots of the fake: their updates, chats and messages. No HTTP."""

import json
import re
import time
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import trio

TOKEN = "123456789:AAFakeTokenOfTheTests_0123456789abc"
"""The token of the bot that most tests use."""
CONFLICT_PAUSE = 3.0
"""Seconds after a conflict in which a further one is answered late (``Client::fail_query_conflict``)."""
LARGEST_DOWNLOAD = 20 * 2**20
"""https://core.telegram.org/bots/api#getfile"""

_ASKED_FOR = {"chat_member", "message_reaction", "message_reaction_count"}
"""Updates that come only if they are named (https://core.telegram.org/bots/api#getupdates)."""
_SECRET = re.compile(r"[A-Za-z0-9_-]{1,256}")
_METHODS = {
    "sendphoto": "photo",
    "sendvideo": "video",
    "sendaudio": "audio",
    "sendvoice": "voice",
    "senddocument": "document",
    "sendsticker": "sticker",
}

_FIELDS: dict[str, dict[str, Any]] = {
    # What each of these always has (https://core.telegram.org/bots/api#available-types).
    "video": {"width": 640, "height": 360, "duration": 3},
    "audio": {"duration": 3},
    "voice": {"duration": 3},
    "sticker": {"type": "regular", "width": 512, "height": 512, "is_animated": False, "is_video": False},
}


class Failure(Exception):
    """An answer with ``ok: false``."""

    def __init__(self, code: int, description: str, **parameters: Any) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.parameters = parameters


class File:
    """A file that was sent: by a person, or by the bot."""

    def __init__(self, id_: str, path: str, content: bytes, size: int | None = None) -> None:
        self.id = id_
        self.path = path
        self.content = content
        self.size = len(content) if size is None else size


class Bot:
    """One bot, its chats, and the people that write to it.

    Args:
        token: its token.

    Attributes:
        updates: those that wait: number, queue of webhooks, and content.
        calls: method and parameters of each call but polls, in order.
        sent: the bot's messages by chat and number.
        blocked: chats of people who have blocked the bot.
        migrated: by the id of a group the id of the supergroup that it has become.
        urls: the content of what Telegram can fetch from a URL.
        floods: seconds to wait, for as many calls as there are entries; ``None`` for no flood.
        path_of_files: replaces the ``file_path`` of every file.
    """

    def __init__(self, token: str = TOKEN, name: str = "Shop") -> None:
        self.token = token
        self.id = int(token.partition(":")[0])
        self.name = name
        self.updates: list[tuple[int, int, dict[str, Any]]] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.polls: list[dict[str, Any]] = []
        self.sent: dict[tuple[int, int], dict[str, Any]] = {}
        self.files: dict[str, File] = {}
        self.blocked: set[int] = set()
        self.migrated: dict[int, int] = {}
        self.urls: dict[str, bytes] = {}
        self.floods: list[int] = []
        self.path_of_files = ""
        self.is_revoked = False
        self.webhook: dict[str, Any] = {}
        self.changed = trio.Event()
        self.webhook_changed = trio.Event()
        self._allowed: set[str] | None = None
        self._numbers = count(873_000_001)
        self._message_numbers = count(1)
        self._file_numbers = count(1)
        self._chats: dict[int, dict[str, Any]] = {}
        self._poll: tuple[trio.CancelScope, list[str]] | None = None
        self._next_conflict = -1000.0

    # What people do.

    def private_chat(self, person: int, name: str = "Ana") -> dict[str, Any]:
        chat = {"id": person, "type": "private", "first_name": name}
        return self._chats.setdefault(person, chat)

    def group(self, id_: int, title: str = "Team", kind: str = "supergroup") -> dict[str, Any]:
        """Return a group or channel that the bot is in."""
        return self._chats.setdefault(id_, {"id": id_, "type": kind, "title": title})

    def message(
        self, text: str | None = None, *, person: int = 42, name: str = "Ana", chat: int = 0, **fields: Any
    ) -> dict[str, Any]:
        """Return a message of a person, in the private chat or in a group."""
        found = self._chats[chat] if chat else self.private_chat(person, name)
        message: dict[str, Any] = {
            "message_id": next(self._message_numbers),
            "from": {"id": person, "is_bot": False, "first_name": name},
            "chat": found,
            "date": int(time.time()),
        }
        return message | ({} if text is None else {"text": text}) | fields

    def say(self, text: str | None = None, **fields: Any) -> dict[str, Any]:
        """Let a person write a message, and return it."""
        message = self.message(text, **fields)
        self.push("message", message)
        return message

    def push(self, kind: str, content: dict[str, Any], *, number: int | None = None) -> int | None:
        """Add an update and return its number; none of a kind not asked for (``add_update_impl``)."""
        allowed = self._allowed
        if kind in _ASKED_FOR if allowed is None else kind not in allowed:
            return None
        if number is None:
            number = next(self._numbers)
        else:
            self._numbers = count(number + 1)
        chat = content.get("chat") or content.get("message", {}).get("chat") or content.get("from") or {}
        self.updates.append((number, chat.get("id", 0), {"update_id": number, kind: content}))
        self._announce()
        return number

    def file(self, content: bytes, path: str = "", **fields: Any) -> dict[str, Any]:
        """Store a file, and return it as in a message."""
        number = next(self._file_numbers)
        file = File(
            f"AgAC-file_{number}", path or f"documents/file_{number}.bin", content, fields.pop("size", None)
        )
        self.files[file.id] = file
        return {"file_id": file.id, "file_unique_id": f"u{number}", "file_size": file.size, **fields}

    def calls_of(self, method: str) -> list[dict[str, Any]]:
        return [parameters for name, parameters in self.calls if name == method]

    async def wait_for_calls(self, method: str, number: int = 1) -> list[dict[str, Any]]:
        """Wait until a method was called so often, and return the parameters of all calls."""
        while len(found := self.calls_of(method)) < number:
            await self.changed.wait()
        return found

    # What the bot does.

    async def call(self, method: str, given: dict[str, Any]) -> Any:
        """Make a call, and return its result; names of methods have no case."""
        if self.is_revoked:
            raise Failure(401, "Unauthorized")
        name = method.lower()
        if name == "getupdates":
            self.polls.append(given)
        else:
            self.calls.append((method, given))
            self._announce()
        if self.floods:
            wait = self.floods.pop(0)
            raise Failure(429, f"Too Many Requests: retry after {wait}", retry_after=wait)
        handler: Callable[[dict[str, Any]], Awaitable[Any]] | None = getattr(self, f"_{name}", None)
        if handler is not None:
            return await handler(given)
        await trio.lowlevel.checkpoint()
        if name in _METHODS:
            return self._send_file(_METHODS[name], given)
        raise Failure(404, "Not Found: method not found")

    async def _getme(self, _: dict[str, Any]) -> Any:
        return {
            "id": self.id,
            "is_bot": True,
            "first_name": self.name,
            "username": "shop_bot",
            "can_join_groups": True,
            "can_read_all_group_messages": False,
            "supports_inline_queries": False,
        }

    async def _getupdates(self, given: dict[str, Any]) -> Any:
        """``Client::process_get_updates_query`` and ``do_get_updates``."""
        if self.webhook:
            await self._conflict(
                "Conflict: can't use getUpdates method while webhook is active; "
                "use deleteWebhook to delete the webhook first"
            )
        offset, limit = int(given.get("offset") or 0), min(100, max(1, int(given.get("limit") or 100)))
        timeout = min(50, max(0, int(given.get("timeout") or 0)))
        self._allow(given)
        if offset < 0:
            self.updates = self.updates[offset:]
        elif offset > 0 and (not self.updates or offset <= self.updates[-1][0] + 10):
            # An offset in the future counts as none: after a quiet week, numbers begin anywhere.
            self.updates = [update for update in self.updates if update[0] >= offset]
        if not self.updates and timeout:
            # Only one poll waits: a second one ends the first.
            self.end_poll(
                "Conflict: terminated by other getUpdates request; "
                "make sure that only one bot instance is running"
            )
            ended: list[str] = []
            with trio.move_on_after(timeout) as scope:
                mine = self._poll = (scope, ended)
                while not self.updates:
                    await self.changed.wait()
            if self._poll is mine:
                self._poll = None
            if ended:
                await self._conflict(ended[0])
        else:
            await trio.lowlevel.checkpoint()
        return [content for _, _, content in self.updates[:limit]]

    def end_poll(self, reason: str) -> None:
        """End the poll that waits, if there is one."""
        if self._poll is not None:
            scope, ended = self._poll
            self._poll = None
            ended.append(reason)
            scope.cancel()

    async def _conflict(self, reason: str) -> None:
        now = trio.current_time()
        if now >= self._next_conflict:
            self._next_conflict = now + CONFLICT_PAUSE
        else:
            await trio.sleep(CONFLICT_PAUSE)
        raise Failure(409, reason)

    async def _setwebhook(self, given: dict[str, Any]) -> Any:
        url = given.get("url") or ""
        if not url:
            return await self._deletewebhook(given)
        if not url.startswith(("https://", "http://")):
            raise Failure(400, "Bad Request: invalid webhook URL specified")
        secret = given.get("secret_token") or ""
        if secret and not _SECRET.fullmatch(secret):
            raise Failure(400, "Bad Request: secret token contains unallowed characters")
        self._allow(given)
        self.end_poll("Conflict: terminated by setWebhook request")
        self.webhook = {
            "url": url,
            "secret_token": secret,
            "max_connections": int(given.get("max_connections") or 40),
        }
        self._webhook_announce()
        await trio.lowlevel.checkpoint()
        return True

    async def _deletewebhook(self, _: dict[str, Any]) -> Any:
        self.webhook = {}
        self._webhook_announce()
        await trio.lowlevel.checkpoint()
        return True

    async def _getwebhookinfo(self, _: dict[str, Any]) -> Any:
        await trio.lowlevel.checkpoint()
        info = {
            "url": self.webhook.get("url", ""),
            "has_custom_certificate": False,
            "pending_update_count": len(self.updates),
        }
        for field in ("max_connections", "last_error_date", "last_error_message"):
            if field in self.webhook:
                info[field] = self.webhook[field]
        if self._allowed is not None:
            info["allowed_updates"] = sorted(self._allowed)
        return info

    async def _getfile(self, given: dict[str, Any]) -> Any:
        await trio.lowlevel.checkpoint()
        file = self.files.get(given.get("file_id", ""))
        if file is None:
            raise Failure(400, "Bad Request: wrong file_id or the file is temporarily unavailable")
        if file.size > LARGEST_DOWNLOAD:
            raise Failure(400, "Bad Request: file is too big")
        path = self.path_of_files or file.path
        return {"file_id": file.id, "file_unique_id": "u", "file_size": file.size, "file_path": path}

    async def _getchat(self, given: dict[str, Any]) -> Any:
        await trio.lowlevel.checkpoint()
        return self._chat(given)

    async def _sendmessage(self, given: dict[str, Any]) -> Any:
        await trio.lowlevel.checkpoint()
        text = given.get("text") or ""
        if not text:
            raise Failure(400, "Bad Request: message text is empty")
        if len(text) > 4096:
            raise Failure(400, "Bad Request: message is too long")
        return self._new(given, text=text)

    async def _sendlocation(self, given: dict[str, Any]) -> Any:
        await trio.lowlevel.checkpoint()
        place = {name: float(given[name]) for name in ("latitude", "longitude")}
        return self._new(given, location=place)

    async def _sendvenue(self, given: dict[str, Any]) -> Any:
        await trio.lowlevel.checkpoint()
        place = {name: float(given[name]) for name in ("latitude", "longitude")}
        venue = {"location": place, "title": given["title"], "address": given["address"]}
        return self._new(given, location=place, venue=venue)

    async def _sendcontact(self, given: dict[str, Any]) -> Any:
        await trio.lowlevel.checkpoint()
        names = ("phone_number", "first_name", "last_name", "vcard")
        return self._new(given, contact={name: given[name] for name in names if name in given})

    def _send_file(self, field: str, given: dict[str, Any]) -> Any:
        content = given.get(field)
        fields: dict[str, Any] = dict(_FIELDS.get(field, {}))
        if isinstance(content, tuple):
            name, content, mimetype = content
            if field not in ("sticker", "voice"):
                fields["file_name"] = name
            if field != "sticker":
                fields["mime_type"] = mimetype
        elif isinstance(content, str) and content.startswith("http"):
            if content not in self.urls:
                raise Failure(400, "Bad Request: failed to get HTTP URL content")
            content = self.urls[content]
        else:
            raise Failure(400, f"Bad Request: there is no {field} in the request")
        if field == "photo":
            found: Any = [
                self.file(content, width=90, height=60),
                self.file(content, width=900, height=600),
            ]
        else:
            found = self.file(content, **fields)
        shown = {"caption": given["caption"]} if given.get("caption") else {}
        return self._new(given, **{field: found}, **shown)

    async def _editmessagetext(self, given: dict[str, Any]) -> Any:
        await trio.lowlevel.checkpoint()
        message = self._own(given)
        if "text" not in message:
            raise Failure(400, "Bad Request: there is no text in the message to edit")
        if message["text"] == given["text"]:
            raise Failure(
                400,
                "Bad Request: message is not modified: specified new message content and reply markup are "
                "exactly the same as a current content and reply markup of the message",
            )
        message |= {"text": given["text"], "edit_date": int(time.time())}
        return message

    async def _editmessagecaption(self, given: dict[str, Any]) -> Any:
        await trio.lowlevel.checkpoint()
        message = self._own(given)
        message |= {"caption": given["caption"], "edit_date": int(time.time())}
        return message

    async def _deletemessage(self, given: dict[str, Any]) -> Any:
        await trio.lowlevel.checkpoint()
        chat = self._chat(given)
        if self.sent.pop((chat["id"], int(given["message_id"])), None) is None:
            raise Failure(400, "Bad Request: message to delete not found")
        return True

    async def _setmessagereaction(self, given: dict[str, Any]) -> Any:
        await trio.lowlevel.checkpoint()
        self._chat(given)
        if any(one["emoji"] == "🚫" for one in _json(given.get("reaction") or [])):
            raise Failure(400, "Bad Request: REACTION_INVALID")
        return True

    async def _sendchataction(self, given: dict[str, Any]) -> Any:
        await trio.lowlevel.checkpoint()
        self._chat(given)
        if given.get("action") not in ("typing", "record_voice"):
            raise Failure(400, "Bad Request: wrong parameter action in request")
        return True

    async def _answercallbackquery(self, _: dict[str, Any]) -> Any:
        await trio.lowlevel.checkpoint()
        return True

    async def _readbusinessmessage(self, _: dict[str, Any]) -> Any:
        await trio.lowlevel.checkpoint()
        return True

    async def _deletebusinessmessages(self, _: dict[str, Any]) -> Any:
        await trio.lowlevel.checkpoint()
        return True

    def _new(self, given: dict[str, Any], **content: Any) -> dict[str, Any]:
        chat = self._chat(given)
        message: dict[str, Any] = {"message_id": next(self._message_numbers)}
        if chat["type"] == "channel":
            message["sender_chat"] = chat
        else:
            message["from"] = {"id": self.id, "is_bot": True, "first_name": self.name, "username": "shop_bot"}
        message |= {"chat": chat, "date": int(time.time()), **content}
        if given.get("business_connection_id"):
            message["business_connection_id"] = given["business_connection_id"]
            message["from"] = {"id": 7, "is_bot": False, "first_name": "Owner"}
            message["sender_business_bot"] = {"id": self.id, "is_bot": True, "first_name": self.name}
        if reply := _json(given.get("reply_parameters") or {}):
            message["reply_to_message"] = {
                "message_id": reply["message_id"],
                "chat": chat,
                "date": 1,
                "text": "…",
            }
        self.sent[(chat["id"], message["message_id"])] = message
        return message

    def _chat(self, given: dict[str, Any]) -> dict[str, Any]:
        wanted = given.get("chat_id", "")
        if str(wanted).startswith("@"):
            found = [chat for chat in self._chats.values() if chat.get("username") == str(wanted)[1:]]
            if not found:
                raise Failure(400, "Bad Request: chat not found")
            return found[0]
        if not re.fullmatch("-?[0-9]+", str(wanted)):
            raise Failure(400, "Bad Request: chat_id is empty")
        id_ = int(wanted)
        if id_ in self.migrated:
            raise Failure(
                400,
                "Bad Request: group chat was upgraded to a supergroup chat",
                migrate_to_chat_id=self.migrated[id_],
            )
        if id_ in self.blocked:
            raise Failure(403, "Forbidden: bot was blocked by the user")
        if id_ not in self._chats:
            raise Failure(400, "Bad Request: chat not found")
        return self._chats[id_]

    def _own(self, given: dict[str, Any]) -> dict[str, Any]:
        chat = self._chat(given)
        message = self.sent.get((chat["id"], int(given["message_id"])))
        if message is None:
            raise Failure(400, "Bad Request: message to edit not found")
        return message

    def _allow(self, given: dict[str, Any]) -> None:
        allowed = given.get("allowed_updates")
        if allowed is not None:
            # An empty list: all but those that must be named.
            self._allowed = set(_json(allowed)) or None

    def _announce(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    def _webhook_announce(self) -> None:
        self.webhook_changed.set()
        self.webhook_changed = trio.Event()
        self._announce()


def _json(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value
