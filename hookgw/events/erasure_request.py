"""The body of ``/event/erase``. No I/O."""

from __future__ import annotations

from typing import Any

from hookgw.kernel.json_fields import Fields, as_object, text_up_to

MAX_JID = 255


def parse_erasure(body: Any) -> str:
    """Read the body of an erasure.

    Args:
        body: the decoded JSON.

    Returns:
        What the network calls the person or the chat.

    Raises:
        Invalid: ``remoteJid`` is missing, or no text of 1 to :data:`MAX_JID` characters, or there is an
            unknown field.
    """
    fields = Fields(("", as_object(body, "The body")))
    remote_jid = fields.need(text_up_to(MAX_JID), "", "remoteJid")
    fields.refuse_unknown("an erasure")
    fields.finish()
    return remote_jid
