"""The bodies of ``/message`` and ``/chat``. The parsers raise ``Invalid`` with every mistake. No I/O.

Clients of Evolution API 2 send the fields of a message beside ``number``. Those of version 1 send them in an
object (``textMessage``), and what both versions call options in ``options``.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar

import msgspec

from hookgw.kernel.errors import Invalid, WrongFields
from hookgw.kernel.json_fields import (
    Check,
    Fields,
    as_bool,
    as_object,
    as_text,
    cut_short,
    is_whole,
    list_of,
    not_empty,
    one_of,
    text_at_most,
    text_up_to,
    whole_number,
)
from hookgw.kernel.sentences import Sentence
from hookgw.records.chats import plain_jid
from hookgw.records.messages import (
    Contact,
    ContactMessage,
    LocationMessage,
    MediaKind,
    MediaMessage,
    MessageKey,
    ReactionMessage,
    TemplateMessage,
    TextMessage,
)

MAX_NUMBER = 255
"""Characters of a number or a chat; Matrix allows that many."""
MAX_ID = 512
"""Characters of a network's id of a message."""
MAX_TEXT = 65_536
MAX_LINE = 1024
"""Characters of a name, an address and the like."""
MAX_URL = 2048
NO_MEDIA = Sentence.declared(
    "media.form", "{where} must be an http or https URL, base64, or a data: URL with base64."
)
"""The end of the sentence about a file that is none of these."""
MAX_REACTION = 64
MAX_ITEMS = 500
"""Messages to mark, numbers to look up, and accounts to mention, in one call."""
MAX_CONTACTS = 100
MAX_COMPONENTS = 100
MAX_SEND_DELAY = 60_000
"""Milliseconds for which a send may wait."""
MAX_DELAY = 300_000
"""Milliseconds for which a presence may be shown."""
DEFAULT_DELAY = 5_000.0
PRESENCES = ("available", "unavailable", "composing", "recording", "paused")
MAX_PAGE = 1_000
"""The most chats or contacts of a page."""
MAX_COUNT = 1_000_000
"""The highest number of a page that a client may ask for."""

_NO_ITEMS = Sentence.declared("field.no_items", "{where} must have at least one item.")

T = TypeVar("T")

KEY_PATTERN = "[!-~]{1,255}"
"""The form of the key of a send, which becomes a header."""
_URL = re.compile(r"https?://[^\s]+", re.IGNORECASE)
_DATA_URL = re.compile(r"data:([^,;]*)(;[^,]*)?;base64,", re.IGNORECASE)


class Presence(msgspec.Struct, frozen=True, kw_only=True):
    """A presence to show in a chat, one of :data:`PRESENCES`; the delay is in seconds."""

    number: str
    presence: str
    delay: float


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    number: str
    key: MessageKey
    text: str


class ChatQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which chats or contacts to list, page by page. ``None`` does not filter.

    Attributes:
        chat: its id or the part before the ``@``.
        page: from 1.
        skip: how many are before the first page.
    """

    chat: str | None = None
    name: str | None = None
    page: int = 1
    size: int = MAX_PAGE
    skip: int = 0

    def wants(self, chat: str) -> bool:
        """Return whether a chat is to be listed, as far as its plain name says."""
        return self.chat is None or plain_jid(self.chat) in (chat, chat.partition("@")[0])

    @property
    def page_slice(self) -> slice:
        start = self.skip + (self.page - 1) * self.size
        return slice(start, start + self.size)


def parse_idempotency_key(value: str | None) -> str | None:
    """Return the ``Idempotency-Key`` of a send: 1 to 255 visible ASCII characters."""
    if value is not None and not re.fullmatch(KEY_PATTERN, value):
        raise Invalid.of(
            "idempotency.message_form", "Idempotency-Key must be 1 to 255 visible ASCII characters."
        )
    return value


def parse_text_message(body: Any) -> TextMessage:
    """Read the body of ``sendText``."""
    parts = _Parts(body, "textMessage")
    text = parts.content.need(text_up_to(MAX_TEXT), "", "text")
    mentions: tuple[str, ...] | None = parts.options.pick(list_of(number_of, MAX_ITEMS), "mentioned")
    if mentions is None:
        mentions = parts.options.pick(_mentions, "mentions") or ()
    # Evolution API 1 has both in one object.
    if (found := parts.options.find("mentions")) is not None and isinstance(found[1], dict):
        parts.common["mentions_everyone"] |= found[1].get("everyOne") is True
    link_preview = parts.options.read(as_bool, True, "linkPreview")
    parts.finish()
    return TextMessage(**parts.common, text=text, mentions=mentions, link_preview=link_preview)


def parse_media_message(body: Any, files: Mapping[str, bytes] = {}) -> MediaMessage:
    """Read the body of ``sendMedia``.

    Args:
        files: contents that were decoded before; ``media`` has the key of one instead of its text.
    """
    parts = _Parts(body, "mediaMessage")
    kind = parts.content.need(one_of([*MediaKind]), "image", "mediatype", "mediaType")
    file = parts.file(files, "media")
    caption = parts.content.read(_text_or_empty, "", "caption")
    file_name = parts.content.read(_line, "", "fileName")
    parts.finish()
    return MediaMessage(**parts.common, **file, kind=MediaKind(kind), caption=caption, file_name=file_name)


def parse_audio_message(body: Any, files: Mapping[str, bytes] = {}) -> MediaMessage:
    """Read the body of ``sendWhatsAppAudio``; see :func:`parse_media_message`."""
    parts = _Parts(body, "audioMessage")
    file = parts.file(files, "audio")
    may_convert = parts.options.read(as_bool, True, "encoding")
    parts.finish()
    return MediaMessage(**parts.common, **file, kind=MediaKind.AUDIO, is_voice=True, may_convert=may_convert)


def parse_sticker_message(body: Any, files: Mapping[str, bytes] = {}) -> MediaMessage:
    """Read the body of ``sendSticker``; see :func:`parse_media_message`."""
    parts = _Parts(body, "stickerMessage")
    # Evolution API 1 calls it an image.
    file = parts.file(files, "sticker", "image")
    parts.finish()
    return MediaMessage(**parts.common, **file, kind=MediaKind.STICKER)


def parse_location_message(body: Any) -> LocationMessage:
    """Read the body of ``sendLocation``."""
    parts = _Parts(body, "locationMessage")
    latitude = parts.content.need(_degrees(90), 0.0, "latitude")
    longitude = parts.content.need(_degrees(180), 0.0, "longitude")
    name = parts.content.read(_line, "", "name")
    address = parts.content.read(_line, "", "address")
    parts.finish()
    return LocationMessage(**parts.common, latitude=latitude, longitude=longitude, name=name, address=address)


def parse_contact_message(body: Any) -> ContactMessage:
    """Read the body of ``sendContact``."""
    parts = _Parts(body)
    check = _some_of(_contact, MAX_CONTACTS)
    # Evolution API 1 has the list itself under the name of its object.
    contacts: tuple[Contact, ...] = parts.content.need(check, (), "contact", "contactMessage")
    parts.finish()
    return ContactMessage(**parts.common, contacts=contacts)


def parse_reaction_message(body: Any) -> ReactionMessage:
    """Read the body of ``sendReaction``. The chat is that of the message."""
    fields = Fields(*_layers(as_object(body, "The body"), "reactionMessage"))
    key = fields.need(_key, _NO_KEY, "key")
    reaction = fields.need(_reaction, "", "reaction")
    fields.finish()
    return ReactionMessage(number=key.remote_jid, key=key, reaction=reaction)


def parse_template_message(body: Any) -> TemplateMessage:
    """Read the body of ``sendTemplate``."""
    parts = _Parts(body, "templateMessage")
    name = parts.content.need(text_up_to(MAX_LINE), "", "name")
    language = parts.content.need(text_up_to(MAX_LINE), "", "language")
    check = list_of(as_object, MAX_COMPONENTS)
    components: tuple[dict[str, Any], ...] = parts.content.read(check, (), "components")
    parts.finish()
    return TemplateMessage(**parts.common, name=name, language=language, components=components)


def parse_read_messages(body: Any) -> tuple[MessageKey, ...]:
    """Read the body of ``markMessageAsRead``."""
    fields = Fields.of_body(body)
    keys: tuple[MessageKey, ...] = fields.need(_some_of(_key, MAX_ITEMS), (), "readMessages", "read_messages")
    fields.finish()
    return keys


def parse_presence(body: Any) -> Presence:
    """Read the body of ``sendPresence``. The delay is in milliseconds there."""
    body = as_object(body, "The body")
    outer, fields = Fields(("", body)), Fields(*_layers(body, "options"))
    number = outer.need(number_of, "", "number")
    presence = fields.need(one_of(PRESENCES), "", "presence")
    delay = fields.read(_milliseconds, DEFAULT_DELAY, "delay")
    raise_problems(outer, fields)
    return Presence(number=number, presence=presence, delay=delay / 1000)


def parse_edit(body: Any) -> Edit:
    """Read the body of ``updateMessage``. Without ``number``, the chat is that of the message."""
    fields = Fields.of_body(body)
    number = fields.pick(number_of, "number")
    # Only one's own messages can be edited.
    key = fields.need(partial(_key, from_me=True), _NO_KEY, "key")
    text = fields.need(text_up_to(MAX_TEXT), "", "text")
    fields.finish()
    return Edit(number=number or key.remote_jid, key=key, text=text)


def parse_deletion(body: Any) -> MessageKey:
    """Read the body of ``deleteMessageForEveryone``: the key of a message."""
    return _read_key(Fields.of_body(body), from_me=True)


def parse_numbers(body: Any) -> tuple[str, ...]:
    """Read the body of ``whatsappNumbers``."""
    fields = Fields.of_body(body)
    numbers: tuple[str, ...] = fields.need(_some_of(number_of, MAX_ITEMS), (), "numbers")
    fields.finish()
    return numbers


def parse_chat_query(body: Any) -> ChatQuery:
    """Read the body of ``findChats`` and ``findContacts``; ``{}`` means everything."""
    paging = Fields.of_body(body)
    where: dict[str, Any] = paging.read(as_object, {}, "where")
    # In `offset`, clients of Evolution API send the size of a page; 0 means the default.
    size = paging.pick(whole_number(0, MAX_PAGE), "offset", "take", "limit")
    page = paging.pick(whole_number(0, MAX_COUNT), "page")
    skip = paging.read(whole_number(0, MAX_COUNT), 0, "skip")
    fields = Fields(("where", where))
    chat = fields.pick(text_up_to(MAX_NUMBER), "remoteJid", "id")
    name = fields.pick(text_up_to(MAX_LINE), "pushName")
    refuse_misspelled(paging, fields)
    raise_problems(paging, fields)
    return ChatQuery(chat=chat, name=name, page=page or 1, size=size or MAX_PAGE, skip=skip)


class _Parts:
    """The parts of a body that sends something.

    ``content`` has the message's fields, ``options`` those of many messages, ``common`` the values of all.
    """

    def __init__(self, body: Any, nested: str | None = None) -> None:
        body = as_object(body, "The body")
        outer = Fields(("", body))
        self._number = outer.need(number_of, "", "number")
        self.content = Fields(*_layers(body, nested))
        self.options = Fields(*_layers(body, "options"))
        quoted = self.options.pick(self._quoted, "quoted") or (None, None)
        self.common: dict[str, Any] = {
            "number": self._number,
            "reply_to": quoted[0],
            "replied": quoted[1],
            "delay": self.options.read(whole_number(0, MAX_SEND_DELAY), 0, "delay") / 1000,
            # Evolution API's own schema calls it differently from its code.
            "mentions_everyone": self.options.read(as_bool, False, "mentionsEveryOne", "everyOne"),
        }
        self._outer = outer

    def file(self, files: Mapping[str, bytes], *names: str) -> dict[str, Any]:
        """Return the file of a message, and its type, as its fields; see :func:`parse_media_message`."""
        found: dict[str, Any] = self.content.need(partial(_media, files=files), {}, *names)
        mimetype = self.content.pick(_line, "mimetype")
        return found | {"mimetype": mimetype or found.get("mimetype")}

    def _quoted(self, value: Any, where: str) -> tuple[MessageKey, dict[str, Any] | None] | None:
        quoted = as_object(value, where)
        content = quoted.get("message")
        replied = None if content is None else as_object(content, f"{where}.message")
        if quoted.get("key") is None:
            return None  # clients send an empty object for "no reply"
        where = f"{where}.key"
        # Most clients send the id alone.
        key = _read_key(Fields((where, as_object(quoted["key"], where))), chat=self._number)
        return key, replied or None

    def finish(self) -> None:
        raise_problems(self._outer, self.content, self.options)


def refuse_misspelled(*several: Fields) -> None:
    """Make mistakes of misspelled fields of a search: without them, it would find everything."""
    for fields in several:
        fields.refuse_unknown("a search", only_misspelled=True)


def raise_problems(*several: Fields) -> None:
    """Raise ``WrongFields`` with the mistakes in several objects of a body, if there are any."""
    problems = [problem for fields in several for problem in fields.problems]
    if problems:
        raise WrongFields(*cut_short(problems))


def _layers(body: dict[str, Any], nested: str | None) -> list[tuple[str, dict[str, Any]]]:
    inner = body.get(nested) if nested is not None else None
    if nested is None or inner is None:
        return [("", body)]
    return [("", body), (nested, as_object(inner, nested))]


def number_of(value: Any, where: str) -> str:
    """Check a number or a chat."""
    # Clients that read numbers from a spreadsheet send them as JSON numbers.
    if is_whole(value):
        value = str(int(value))
    return text_up_to(MAX_NUMBER)(as_text(value, where).strip(), where)


def _some_of(check: Check[T], longest: int) -> Check[tuple[T, ...]]:
    return not_empty(list_of(check, longest), _NO_ITEMS)


_line = text_at_most(MAX_LINE)
_text_or_empty = text_at_most(MAX_TEXT)
_reaction = text_at_most(MAX_REACTION)


def _degrees(most: int) -> Check[float]:
    def check(value: Any, where: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not -most <= value <= most:
            raise Invalid.of(
                "field.number_range",
                "{where} must be a number from -{most} to {most}.",
                where=where,
                most=most,
            )
        return float(value)

    return check


def _milliseconds(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_DELAY:
        raise Invalid.of(
            "field.delay_range",
            "{where} must be a number of milliseconds from 0 to {most:,}.",
            where=where,
            most=MAX_DELAY,
        )
    return float(value)


def _mentions(value: Any, where: str) -> tuple[str, ...]:
    fields = Fields((where, as_object(value, where)))
    mentioned: tuple[str, ...] = fields.read(list_of(number_of, MAX_ITEMS), (), "mentioned")
    raise_problems(fields)
    return mentioned


_NO_KEY = MessageKey(remote_jid="", id="")


def _read_key(fields: Fields, *, chat: str | None = None, from_me: bool = False) -> MessageKey:
    message_id = fields.need(text_up_to(MAX_ID), "", "id")
    check = text_up_to(MAX_NUMBER)
    if chat is None:
        remote_jid = fields.need(check, "", "remoteJid")
    else:
        remote_jid = fields.read(check, chat, "remoteJid")
    from_me = fields.read(as_bool, from_me, "fromMe")
    participant = fields.pick(text_at_most(MAX_NUMBER), "participant")
    raise_problems(fields)
    return MessageKey(remote_jid=remote_jid, id=message_id, from_me=from_me, participant=participant or None)


def _key(value: Any, where: str, *, from_me: bool = False) -> MessageKey:
    return _read_key(Fields((where, as_object(value, where))), from_me=from_me)


def _contact(value: Any, where: str) -> Contact:
    fields = Fields((where, as_object(value, where)))
    contact = Contact(
        full_name=fields.need(text_up_to(MAX_LINE), "", "fullName"),
        phone_number=fields.read(number_of, "", "phoneNumber"),
        organization=fields.read(_line, "", "organization"),
        email=fields.read(_line, "", "email"),
        url=fields.read(_line, "", "url"),
    )
    raise_problems(fields)
    return contact


def _media(value: Any, where: str, files: Mapping[str, bytes]) -> dict[str, Any]:
    text = as_text(value, where)
    if _URL.match(text[:16]):
        if len(text) > MAX_URL or not _URL.fullmatch(text):
            raise Invalid.of(
                "media.url_form",
                "{where}: a URL has at most {most:,} characters, and no spaces.",
                where=where,
                most=MAX_URL,
            )
        return {"url": text}
    mimetype = None
    if found := _DATA_URL.match(text[:MAX_LINE]):
        text, mimetype = text[found.end() :], found[1].lower() or None
    if text in files:
        return {"content": files[text], "mimetype": mimetype}
    try:
        content = decode_base64(text.encode())
    except ValueError:
        raise Invalid(NO_MEDIA(where=where)) from None
    return {"content": content, "mimetype": mimetype}


def decode_base64(text: bytes) -> bytes:
    """Decode base64, with line breaks and without padding, too.

    Raises:
        ValueError: the text is not base64, or empty.
    """
    text = text.translate(None, b" \t\r\n")
    text += b"=" * (-len(text) % 4)
    content = binascii.a2b_base64(text, strict_mode=True)
    if not content:
        raise ValueError
    return content
