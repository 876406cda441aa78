"""``/chat``: calls about messages and chats, through an instance's connector."""

from __future__ import annotations

import binascii
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, TypeVar

import msgspec
from quart import Response

from hookgw.instances.connectors.media_download import MediaDownload
from hookgw.kernel.errors import Conflict, HookgwError
from hookgw.messages import responses
from hookgw.messages.chats import Chat, Contact
from hookgw.messages.present import present_chat, present_contact, present_file, present_messages
from hookgw.messages.queries import parse_file_request, parse_message_query, parse_picture_request
from hookgw.messages.requests import (
    ChatQuery,
    parse_chat_query,
    parse_deletion,
    parse_edit,
    parse_numbers,
    parse_presence,
    parse_read_messages,
)
from hookgw.records.api_keys import Right
from hookgw.web.lists import first_of
from hookgw.web.openapi.describe import describes, json_body
from hookgw.web.request_body import (
    current_exchange,
    json_response,
    network_response,
    read_optional_json,
    read_parsed,
    reserve,
)
from hookgw.web.route_group import RouteGroup, route
from hookgw.web.server.errors import JSON
from hookgw.web.server.exchange import BrokenOff
from hookgw.web.server.response_memory import LIST

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway

T = TypeVar("T", Chat, Contact)

_TAG = "Chats"
_ERRORS = (409, 501, 502)
_KEY = {"remoteJid": "5511988887777@s.whatsapp.net", "fromMe": False, "id": "3EB0C0BD05DCA97A7C09CB"}
_OWN_KEY = _KEY | {"fromMe": True}
_READ_BODY = json_body("MarkReadRequest", one_message={"readMessages": [_KEY]})
_PRESENCE_BODY = json_body(
    "SendPresenceRequest",
    typing={"number": "5511988887777", "presence": "composing", "delay": 3000},
)
_EDIT_BODY = json_body(
    "UpdateMessageRequest", an_edit={"number": "5511988887777", "key": _OWN_KEY, "text": "Oi!"}
)
_DELETE_BODY = json_body("DeleteMessageRequest", a_message=_OWN_KEY)
_CHATS_BODY = json_body(
    "ChatQueryRequest",
    required=False,
    all={},
    one={"where": {"remoteJid": "5511988887777@s.whatsapp.net"}},
    second_page={"page": 2, "offset": 50},
)
_CONTACTS_BODY = json_body(
    "ChatQueryRequest", required=False, all={"where": {}}, by_name={"where": {"pushName": "Ana"}}
)
_MESSAGES_BODY = json_body(
    "MessageQueryRequest",
    required=False,
    all={},
    of_a_chat={"where": {"key": {"remoteJid": "5511988887777@s.whatsapp.net"}}, "page": 1, "offset": 50},
    one={"where": {"key": {"id": _KEY["id"]}}},
)
_PICTURE_BODY = json_body("PictureRequest", of_a_number={"number": "5511988887777"})
_FILE_BODY = json_body("FileRequest", by_id={"message": {"key": {"id": _KEY["id"]}}})
_NUMBERS_BODY = json_body("NumbersRequest", two={"numbers": ["5511988887777", "5511977776666"]})


class ChatRoutes(RouteGroup):
    """The handlers check in the same order as those of ``/message``."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(gateway)
        self._messages = gateway.messages
        self._chats = gateway.chats
        self._stored_messages = gateway.stored_messages
        self._instances = gateway.instances

    @route("POST", "/chat/markMessageAsRead/<instance>")
    @route("PUT", "/chat/markMessageAsRead/<instance>")  # clients of Evolution API 1
    @describes(_TAG, Right.SEND, {201: responses.MarkedRead}, body=_READ_BODY, errors=_ERRORS)
    async def mark_read(self, instance: str) -> Response:
        """Mark messages as read."""
        self._messages.require(instance, "markMessageAsRead")
        await self._messages.mark_read(instance, await read_parsed(self._limit, parse_read_messages))
        return json_response(responses.MarkedRead("Read messages", "success"), 201)

    @route("POST", "/chat/sendPresence/<instance>")
    @describes(_TAG, Right.SEND, {201: responses.ShownPresence}, body=_PRESENCE_BODY, errors=_ERRORS)
    async def send_presence(self, instance: str) -> Response:
        """Show a presence in a chat, such as typing."""
        self._messages.require(instance, "sendPresence")
        asked = await read_parsed(self._limit, parse_presence)
        await self._messages.show_presence(instance, asked.presence, number=asked.number, delay=asked.delay)
        return json_response(responses.ShownPresence(asked.presence), 201)

    @route("POST", "/chat/updateMessage/<instance>")
    @route("PUT", "/chat/updateMessage/<instance>")
    @describes(_TAG, Right.SEND, {200: responses.EditedMessage}, body=_EDIT_BODY, errors=_ERRORS)
    async def update_message(self, instance: str) -> Response:
        """Replace the text of a message."""
        self._messages.require(instance, "updateMessage")
        edit = await read_parsed(self._limit, parse_edit)
        return json_response(await self._messages.edit(instance, edit.key, edit.text, number=edit.number))

    @route("DELETE", "/chat/deleteMessageForEveryone/<instance>")
    @describes(_TAG, Right.SEND, {201: responses.DeletedMessage}, body=_DELETE_BODY, errors=_ERRORS)
    async def delete_message(self, instance: str) -> Response:
        """Delete a message for everyone in the chat."""
        self._messages.require(instance, "deleteMessageForEveryone")
        key = await read_parsed(self._limit, parse_deletion)
        return json_response(await self._messages.delete(instance, key), 201)

    @route("POST", "/chat/whatsappNumbers/<instance>")
    @describes(_TAG, Right.SEND, {200: list[responses.FoundNumber]}, body=_NUMBERS_BODY, errors=_ERRORS)
    async def find_numbers(self, instance: str) -> Response:
        """Look up which numbers have an account on the network.

        While the instance is not connected, the history is asked: a number that has written, or was written
        to, has one. If it does not know all of the numbers, the response is 409.
        """
        self._messages.require(instance, "whatsappNumbers")
        numbers = await read_parsed(self._limit, parse_numbers)
        try:
            found = await self._messages.find_numbers(instance, numbers)
        except Conflict as error:
            refusal = error
        else:
            return json_response(found)
        known = await self._chats.known_numbers(instance, numbers)
        if known is None:
            raise refusal
        return json_response(known)

    @route("POST", "/chat/findChats/<instance>")
    @describes(_TAG, Right.PAYLOADS, {200: list[responses.Chat]}, body=_CHATS_BODY)
    async def find_chats(self, instance: str) -> Response:
        """List the chats in the history, the one with the newest message first."""
        return await self._list_chats(instance, await self._read_query(instance))

    async def _list_chats(self, instance: str, query: ChatQuery) -> Response:
        await reserve(LIST)
        found = await self._chats.chats(instance, query.wants)
        room = LIST // 2

        def present(chat: Chat) -> responses.Chat:
            nonlocal room
            shown = present_chat(chat)
            # A page that ended early would be a gap for clients that ask for the next one by its number.
            # So the messages of further chats are left out, as large ones are.
            room -= len(bytes(chat.last_message.message))
            if room < 0:
                last = msgspec.structs.replace(shown.last_message, message=msgspec.Raw(b"{}"))
                shown = msgspec.structs.replace(shown, last_message=last)
            return shown

        return json_response(await first_of(_page(found, query), present))

    @route("GET", "/chat/findChats/<instance>")  # clients of Evolution API 1
    @describes(_TAG, Right.PAYLOADS, {200: list[responses.Chat]})
    async def list_chats(self, instance: str) -> Response:
        """List the 1,000 newest chats in the history, the one with the newest message first."""
        # A handler of its own: the body of a GET request has no meaning, which generators do not accept.
        self._instances.get(instance)
        return await self._list_chats(instance, parse_chat_query({}))

    @route("POST", "/chat/findContacts/<instance>")
    @describes(_TAG, Right.PAYLOADS, {200: list[responses.Contact]}, body=_CONTACTS_BODY)
    async def find_contacts(self, instance: str) -> Response:
        """List the people and groups in the history, those of the newest events first."""
        query = await self._read_query(instance)
        await reserve(LIST)
        found = await self._chats.contacts(instance, query.wants)
        return json_response(await first_of(_page(found, query), present_contact))

    @route("POST", "/chat/findMessages/<instance>")
    @describes(_TAG, Right.PAYLOADS, {200: responses.MessagePage}, body=_MESSAGES_BODY, errors=(429, 502))
    async def find_messages(self, instance: str) -> Response:
        """List messages, the newest first.

        Of most networks, those in the history; a network that keeps messages itself, and whose connector
        runs, is asked. A search takes about a second at most.
        """
        found_instance = self._instances.get(instance)
        query = parse_message_query(await read_optional_json(self._limit))
        await reserve(LIST)
        asked = await self._messages.find_messages(instance, query)
        if asked is not None:
            return await network_response(asked)
        found = await self._stored_messages.find(instance, query)
        return json_response(present_messages(found, query, found_instance.id))

    @route("POST", "/chat/fetchProfilePictureUrl/<instance>")
    @describes(_TAG, Right.PAYLOADS, {200: responses.Picture}, body=_PICTURE_BODY, errors=_ERRORS)
    async def find_picture(self, instance: str) -> Response:
        """Return the picture of an account or a group."""
        self._messages.require(instance, "fetchProfilePictureUrl")
        number = await read_parsed(self._limit, parse_picture_request)
        return json_response(await self._messages.find_picture(instance, number))

    @route("POST", "/chat/getBase64FromMediaMessage/<instance>")
    @describes(_TAG, Right.PAYLOADS, {201: responses.MediaFile}, body=_FILE_BODY, errors=(*_ERRORS, 413))
    async def fetch_file(self, instance: str) -> Response:
        """Return the file of a message as base64.

        The message is found by its key, in the history, for as long as that has it. The file may
        have `media.limit`, and is streamed. If it cannot be completed, the connection is closed before its
        end.
        """
        self._messages.require(instance, "getBase64FromMediaMessage")
        message_id, chat = await read_parsed(self._limit, parse_file_request)
        file = await self._stored_messages.open_file(instance, message_id, chat)
        current_exchange().call_at_end(file.leave)
        if file.download is None:
            return json_response(present_file(file, None, message_id), 201)
        shown = present_file(file, await file.download.head(), message_id)
        # The content is the last field.
        start = msgspec.json.encode(shown).removesuffix(b'"}')
        response = Response(_as_base64(start, file.download), 201, content_type=JSON)
        response.timeout = None  # MediaDownload has a deadline that grows with what was read
        response.headers.pop("content-length", None)
        return response

    async def _read_query(self, instance: str) -> ChatQuery:
        self._instances.get(instance)  # 404 comes before any error of the body
        return parse_chat_query(await read_optional_json(self._limit))


def _page(found: list[T], query: ChatQuery) -> list[T]:
    # The page first: presenting all that was found would take much longer.
    return [one for one in found if query.name in (None, one.name)][query.page_slice]


async def _as_base64(start: bytes, download: MediaDownload) -> AsyncIterator[bytes]:
    yield start
    rest = b""
    try:
        async for piece in download.chunks():
            content = rest + piece
            whole = len(content) // 3 * 3
            rest = content[whole:]
            yield binascii.b2a_base64(content[:whole], newline=False)
    except HookgwError as error:
        raise BrokenOff from error
    yield binascii.b2a_base64(rest, newline=False) + b'"}'
