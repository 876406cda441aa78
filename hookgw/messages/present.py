"""Shows chats and contacts as responses."""

from __future__ import annotations

from hookgw.connectors import suffix_of
from hookgw.instances.connectors.media_download import MediaHead
from hookgw.kernel.times import rfc3339
from hookgw.messages import responses
from hookgw.messages.chats import Chat, Contact
from hookgw.messages.stored_messages import MessagePage, StoredFile
from hookgw.records.messages import MessageQuery
from hookgw.web.present import shown


def present_chat(chat: Chat) -> responses.Chat:
    return responses.Chat(
        id=chat.jid,
        remote_jid=chat.jid,
        push_name=chat.name,
        profile_pic_url=None,
        updated_at=rfc3339(chat.updated_at),
        last_message=chat.last_message,
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


def present_messages(page: MessagePage, query: MessageQuery, instance_id: str) -> responses.MessagePage:
    """Return a page of messages, as Evolution API has it."""
    records = [
        shown(
            responses.FoundMessage,
            one,
            instance_id=instance_id,
            message_update=[responses.MessageStatus(status) for status in one.statuses],
        )
        for one in page.records
    ]
    pages = -(-page.total // query.size)
    return responses.MessagePage(
        responses.FoundMessages(total=page.total, pages=pages, current_page=query.page, records=records)
    )


def present_file(file: StoredFile, head: MediaHead | None, message_id: str) -> responses.MediaFile:
    """Return the file of a message.

    Args:
        file: the file.
        head: what is known of it; ``None`` if it is in the event. Otherwise its content is left out.
        message_id: of the message.
    """
    described = file.described
    caption = described.get("caption")
    mimetype = head.mimetype if head is not None else str(described.get("mimetype") or "")
    name = head.file_name if head is not None else described.get("fileName")
    if not isinstance(name, str) or not name:
        # As Evolution API names it.
        name = f"{message_id}{suffix_of(mimetype)}"
    return responses.MediaFile(
        media_type=file.message_type,
        file_name=name,
        caption=caption if isinstance(caption, str) else None,
        size=responses.FileSize(
            file_length=described.get("fileLength"),
            height=described.get("height"),
            width=described.get("width"),
        ),
        mimetype=mimetype,
        base64=file.base64,
    )
