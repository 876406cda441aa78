"""WAHA's groups, as hookgw shows them. Each engine has a form of its own. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hookgw.connectors import items, mapping, seconds, text

from .fields import id_text
from .ids import jid_of

_FLAGS = {
    "restrict": "IsLocked",
    "announce": "IsAnnounce",
    "isCommunity": "IsParent",
    "isCommunityAnnounce": "IsDefaultSubGroup",
}
"""By their names in Baileys and on WhatsApp Web: those in whatsmeow."""


def groups_in(answer: Any) -> Iterator[dict[str, Any]]:
    """Yield the groups in an answer: a list, or (NOWEB) an object with a group for each id."""
    yield from items(list(answer.values()) if isinstance(answer, dict) else answer)


def group_of(given: dict[str, Any], *, with_participants: bool) -> dict[str, Any] | None:
    """Return a group; ``None`` if it has no id.

    Args:
        given: as WAHA has it: of Baileys (NOWEB), of WhatsApp Web (WEBJS, WPP) or of whatsmeow (GOWS).
        with_participants: whether to return who is in it.
    """
    web = mapping(given.get("groupMetadata"))
    id_ = id_text(given.get("id")) or text(given.get("JID"))
    if not id_:
        return None
    lists = (given.get("participants"), given.get("Participants"), web.get("participants"))
    people = [_participant(one) for one in items(next((one for one in lists if isinstance(one, list)), []))]
    size = given.get("size", web.get("size"))
    created = seconds(given.get("creation", web.get("creation", given.get("GroupCreated"))))
    group: dict[str, Any] = {
        "id": jid_of(id_),
        "subject": _first_text(given, web, "subject", "name", "Name") or None,
        "owner": jid_of(_first_text(given, web, "owner", "OwnerJID")) or None,
        "desc": _first_text(given, web, "desc", "description", "Topic") or None,
        "size": size if type(size) is int else len(people),
        # Clients of Evolution API need all of these.
        "creation": created,
        "subjectTime": seconds(given.get("subjectTime", given.get("NameSetAt"))) or created,
        **{
            name: any(one.get(key) is True for one in (given, web) for key in (name, of_gows))
            for name, of_gows in _FLAGS.items()
        },
    }
    if with_participants:
        group["participants"] = [one for one in people if one["id"]]
    return group


def _participant(given: dict[str, Any]) -> dict[str, Any]:
    admin = text(given.get("admin"))
    if given.get("isSuperAdmin") is True or given.get("IsSuperAdmin") is True:
        admin = "superadmin"
    elif given.get("isAdmin") is True or given.get("IsAdmin") is True:
        admin = "admin"
    # Of a hidden id, the number beside it.
    number = text(given.get("phoneNumber")) or text(given.get("PhoneNumber"))
    id_ = jid_of(id_text(given.get("id")) or text(given.get("JID")))
    shown: dict[str, Any] = {"id": id_, "admin": admin or None}
    return {**shown, "phoneNumber": jid_of(number)} if number else shown


def _first_text(given: dict[str, Any], web: dict[str, Any], *names: str) -> str:
    return next(filter(None, (id_text(one.get(name)) for one in (given, web) for name in names)), "")
