"""The body of ``/event/erase``. No I/O."""

from __future__ import annotations

from typing import Any

from hookgw.kernel.json_fields import Fields, name_up_to

MAX_JID = 255


def parse_erasure(body: Any) -> str:
    """Read the body of an erasure. Return the network's name of the person or the chat.

    It has 1 to :data:`MAX_JID` characters, none of them NUL. An unknown field is a mistake.

    Raises:
        Invalid: with every mistake.
    """
    fields = Fields.of_body(body)
    remote_jid = fields.need(name_up_to(MAX_JID), "", "remoteJid")
    fields.refuse_unknown("an erasure")
    fields.finish()
    return remote_jid
