"""Which instances a text finds. No I/O."""

from __future__ import annotations

from hookgw.instances.connectors.states import Account
from hookgw.records.instances import Instance
from hookgw.records.tags import tag_texts


def has_text(
    wanted: str, instance: Instance, number: str | None, account: Account, reason: str | None
) -> bool:
    """Return whether the name, number, profile, connector, reason or a tag has a text; case is ignored.

    Args:
        number: the shown option of its connector, ``None`` without one.
        reason: why its connection is closed.
    """
    jid = account.jid or ""
    texts = (
        instance.name,
        number,
        jid,
        account.profile_name,
        instance.integration,
        reason,
        *tag_texts(instance.tags),
    )
    return any(wanted.casefold() in (text or "").casefold() for text in texts)
