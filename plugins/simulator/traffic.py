"""What people write on the simulated network. No I/O: dice and a time in, payloads out."""

from __future__ import annotations

import zlib
from random import Random
from typing import Any

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
GROUP_EVERY = 5
"""Each chat whose number this divides is a group."""


def account_of(instance: str) -> str:
    """The account that an instance is connected as; the same name gives the same one."""
    return person(zlib.crc32(instance.encode()))


def person(number: int) -> str:
    """The JID of the person with that number."""
    return f"55119{number % 10**8:08d}@s.whatsapp.net"


def message_id(dice: Random) -> str:
    """A fresh id of a message, as phones make them."""
    return f"3EB0{dice.getrandbits(72):018X}"


def incoming(dice: Random, chats: int, now: int) -> dict[str, Any]:
    """A message that arrives: the payload of MESSAGES_UPSERT.

    Args:
        dice: decides who writes what.
        chats: how many chats there are.
        now: Unix seconds.
    """
    chat = dice.randrange(chats)
    writer = dice.randrange(len(_NAMES))
    key: dict[str, Any] = {"remoteJid": person(chat), "fromMe": False, "id": message_id(dice)}
    if chat % GROUP_EVERY == GROUP_EVERY - 1:
        key["remoteJid"] = f"1203630400{chat:08d}@g.us"
        key["participant"] = person(10**7 + writer)
    name, message = _content(dice)
    return {
        "key": key,
        "pushName": _NAMES[writer],
        "message": message,
        "messageType": name,
        "messageTimestamp": now,
        "source": dice.choice(("android", "ios", "web")),
    }


def outgoing(dice: Random, chat: str, text: str, now: int) -> dict[str, Any]:
    """A message that the instance sends: the payload of SEND_MESSAGE."""
    return {
        "key": {"remoteJid": chat, "fromMe": True, "id": message_id(dice)},
        "status": "PENDING",
        "message": {"conversation": text},
        "messageType": "conversation",
        "messageTimestamp": now,
        "source": "web",
    }


def status_of(message: dict[str, Any], status: str) -> dict[str, Any]:
    """A step of a sent message's status: the payload of MESSAGES_UPDATE."""
    key = message["key"]
    return {"keyId": key["id"], "remoteJid": key["remoteJid"], "fromMe": True, "status": status}


def _content(dice: Random) -> tuple[str, dict[str, Any]]:
    text = dice.choice(_TEXTS)
    if dice.random() < 0.8:
        return "conversation", {"conversation": text}
    image = {"mimetype": "image/jpeg", "caption": text, "fileLength": str(dice.randrange(10**4, 10**6))}
    return "imageMessage", {"imageMessage": image}
