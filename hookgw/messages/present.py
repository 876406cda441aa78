"""Shows chats and contacts as responses."""

from __future__ import annotations

import msgspec

from hookgw.kernel.times import rfc3339
from hookgw.messages import responses
from hookgw.messages.chats import Chat, Contact


def present_chat(chat: Chat) -> responses.Chat:
    return responses.Chat(
        id=chat.jid,
        remote_jid=chat.jid,
        push_name=chat.name,
        profile_pic_url=None,
        updated_at=rfc3339(chat.updated_at),
        last_message=responses.LastMessage(**msgspec.structs.asdict(chat.last_message)),
        unread_count=None,
        is_saved=chat.name is not None,
    )


def present_contact(contact: Contact) -> responses.Contact:
    is_saved = contact.name is not None or contact.picture_url is not None
    return responses.Contact(
        id=contact.jid,
        remote_jid=contact.jid,
        push_name=contact.name,
        profile_pic_url=contact.picture_url,
        updated_at=rfc3339(contact.updated_at),
        is_group=contact.is_group,
        is_saved=is_saved,
        # The words of Evolution API.
        type="group" if contact.is_group else "contact" if is_saved else "group_member",
    )
