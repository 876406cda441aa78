"""``/chat``: calls about messages and chats, through an instance's connector."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec
from quart import Blueprint, Response

from hookgw.messages import responses
from hookgw.messages.chats import Chat, Contact
from hookgw.messages.present import present_chat, present_contact
from hookgw.messages.requests import (
    ChatQuery,
    parse_chat_query,
    parse_deletion,
    parse_edit,
    parse_numbers,
    parse_presence,
    parse_read_messages,
)
from hookgw.web.lists import first_of
from hookgw.web.openapi.describe import describes, json_body
from hookgw.web.request_body import json_response, read_optional_json, read_parsed, reserve
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
_NUMBERS_BODY = json_body("NumbersRequest", two={"numbers": ["5511988887777", "5511977776666"]})


class ChatRoutes:
    """The handlers check in the same order as those of ``/message``."""

    def __init__(self, gateway: Gateway) -> None:
        self._messages = gateway.messages
        self._chats = gateway.chats
        self._instances = gateway.instances
        self._limit = gateway.settings.server.max_body

    def blueprint(self) -> Blueprint:
        blueprint = Blueprint("chats", __name__, url_prefix="/chat")
        for path, view, method in (
            ("markMessageAsRead", self.mark_read, "POST"),
            ("markMessageAsRead", self.mark_read, "PUT"),  # clients of Evolution API 1
            ("sendPresence", self.send_presence, "POST"),
            ("updateMessage", self.update_message, "POST"),
            ("updateMessage", self.update_message, "PUT"),
            ("deleteMessageForEveryone", self.delete_message, "DELETE"),
            ("whatsappNumbers", self.find_numbers, "POST"),
            ("findChats", self.find_chats, "POST"),
            ("findChats", self.list_chats, "GET"),  # clients of Evolution API 1
            ("findContacts", self.find_contacts, "POST"),
        ):
            blueprint.add_url_rule(f"/{path}/<instance>", view_func=view, methods=[method])
        return blueprint

    @describes(_TAG, {201: responses.MarkedRead}, body=_READ_BODY, errors=_ERRORS)
    async def mark_read(self, instance: str) -> Response:
        """Mark messages as read."""
        self._messages.require(instance, "markMessageAsRead")
        await self._messages.mark_read(instance, await read_parsed(self._limit, parse_read_messages))
        return json_response(responses.MarkedRead("Read messages", "success"), 201)

    @describes(_TAG, {201: responses.ShownPresence}, body=_PRESENCE_BODY, errors=_ERRORS)
    async def send_presence(self, instance: str) -> Response:
        """Show a presence in a chat, such as typing."""
        self._messages.require(instance, "sendPresence")
        asked = await read_parsed(self._limit, parse_presence)
        await self._messages.show_presence(instance, asked.presence, number=asked.number, delay=asked.delay)
        return json_response(responses.ShownPresence(asked.presence), 201)

    @describes(_TAG, {200: responses.EditedMessage}, body=_EDIT_BODY, errors=_ERRORS)
    async def update_message(self, instance: str) -> Response:
        """Replace the text of a message."""
        self._messages.require(instance, "updateMessage")
        edit = await read_parsed(self._limit, parse_edit)
        return json_response(await self._messages.edit(instance, edit.key, edit.text, number=edit.number))

    @describes(_TAG, {201: responses.DeletedMessage}, body=_DELETE_BODY, errors=_ERRORS)
    async def delete_message(self, instance: str) -> Response:
        """Delete a message for everyone in the chat."""
        self._messages.require(instance, "deleteMessageForEveryone")
        key = await read_parsed(self._limit, parse_deletion)
        return json_response(await self._messages.delete(instance, key), 201)

    @describes(_TAG, {200: list[responses.FoundNumber]}, body=_NUMBERS_BODY, errors=_ERRORS)
    async def find_numbers(self, instance: str) -> Response:
        """Look up which numbers have an account on the network."""
        self._messages.require(instance, "whatsappNumbers")
        numbers = await read_parsed(self._limit, parse_numbers)
        return json_response(await self._messages.find_numbers(instance, numbers))

    @describes(_TAG, {200: list[responses.Chat]}, body=_CHATS_BODY)
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

    @describes(_TAG, {200: list[responses.Chat]})
    async def list_chats(self, instance: str) -> Response:
        """List the 1,000 newest chats in the history, the one with the newest message first."""
        # A handler of its own: the body of a GET request has no meaning, which generators do not accept.
        self._instances.get(instance)
        return await self._list_chats(instance, parse_chat_query(None))

    @describes(_TAG, {200: list[responses.Contact]}, body=_CONTACTS_BODY)
    async def find_contacts(self, instance: str) -> Response:
        """List the people and groups in the history, those of the newest events first."""
        query = await self._read_query(instance)
        await reserve(LIST)
        found = await self._chats.contacts(instance, query.wants)
        return json_response(await first_of(_page(found, query), present_contact))

    async def _read_query(self, instance: str) -> ChatQuery:
        self._instances.get(instance)  # 404 comes before any error of the body
        return parse_chat_query(await read_optional_json(self._limit))


def _page(found: list[T], query: ChatQuery) -> list[T]:
    # The page first: presenting all that was found would take much longer.
    return [one for one in found if query.name in (None, one.name)][query.page_slice]
