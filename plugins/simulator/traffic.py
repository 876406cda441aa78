"""The messages that arrive. No I/O: a random generator and a time in, payloads out."""

from __future__ import annotations

import zlib
from random import Random
from typing import Any

from hookgw.connectors import message_data, text_data

_NAMES = ("Ana", "Bruno", "Carla", "Davi", "Elisa", "Fábio", "Gabriela", "Hugo", "Inês", "João")
_TEXTS = (
    "Oi! Vocês abrem amanhã?",
    "Good morning 😀",
    "What does it cost?",
    "Obrigado!",
    "Can you deliver today?",
    "¿Tienen talla M?",
    "ok",
    "I paid, here is the receipt.",
)
# Every fifth chat is a group.
GROUP_EVERY = 5
MOST_GROUPS = 100
"""Groups in a list of them."""
_GROUPS_SINCE = 1_700_000_000
"""When all groups were made, in seconds since the epoch."""


def account_of(instance: str) -> str:
    """Return the JID of an instance's account; the same name gives the same account."""
    # Not hash(): Python randomizes it for each process.
    return person(zlib.crc32(instance.encode()))


def person(number: int) -> str:
    return f"55119{number % 10**8:08d}@s.whatsapp.net"


def groups(chats: int, account: str) -> list[dict[str, Any]]:
    """Return the groups among so many chats, as Evolution API shows groups; at most :data:`MOST_GROUPS`."""
    found = []
    for chat in range(GROUP_EVERY - 1, min(chats, MOST_GROUPS * GROUP_EVERY), GROUP_EVERY):
        members: list[dict[str, str | None]] = [{"id": account, "admin": "superadmin"}]
        members += [{"id": person(10**7 + sender), "admin": None} for sender in range(len(_NAMES))]
        found.append(
            {
                "id": group_of(chat),
                "subject": f"Group {chat}",
                "subjectTime": _GROUPS_SINCE,
                "creation": _GROUPS_SINCE,
                "size": len(members),
                "owner": account,
                "restrict": False,
                "announce": False,
                "isCommunity": False,
                "isCommunityAnnounce": False,
                "participants": members,
            }
        )
    return found


def group_of(chat: int) -> str:
    return f"1203630400{chat:08d}@g.us"


def message_id(random: Random) -> str:
    """Return a new message id in the form that phones use."""
    return f"3EB0{random.getrandbits(72):018X}"


def is_group(message: dict[str, Any]) -> bool:
    chat: str = message["key"]["remoteJid"]
    return chat.endswith("@g.us")


def incoming(random: Random, chats: int, now: int) -> dict[str, Any]:
    """Return an incoming message: the payload of MESSAGES_UPSERT. Every fifth or so is a picture.

    Args:
        random: chooses chat, sender and text.
        chats: the number of chats.
        now: seconds since the epoch.
    """
    chat = random.randrange(chats)
    sender = random.randrange(len(_NAMES))
    key: dict[str, Any] = {"remoteJid": person(chat), "fromMe": False, "id": message_id(random)}
    if chat % GROUP_EVERY == GROUP_EVERY - 1:
        key["remoteJid"] = group_of(chat)
        key["participant"] = person(10**7 + sender)
    text = random.choice(_TEXTS)
    name: str = "conversation"
    message: dict[str, Any] = {"conversation": text}
    if random.random() >= 0.8:
        name, message = "imageMessage", {"imageMessage": {"mimetype": "image/png", "caption": text}}
    source = random.choice(("android", "ios", "web"))
    return message_data(key, (name, message), now, push_name=_NAMES[sender], source=source)


def status_of(key: dict[str, Any], status: str) -> dict[str, Any]:
    """Return a new status of a message: the payload of MESSAGES_UPDATE."""
    return {"keyId": key["id"], "remoteJid": key["remoteJid"], "fromMe": key["fromMe"], "status": status}


def written(chat: str, message_id: str, name: str, text: str, now: int) -> dict[str, Any]:
    """Return a text that somebody wrote: the payload of MESSAGES_UPSERT."""
    key = {"remoteJid": chat, "fromMe": False, "id": message_id}
    return {**text_data(key, text, now), "pushName": name, "source": "web"}
