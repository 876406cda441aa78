"""Store events: what breaks a rule is left out, and keeps back nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hookgw.kernel.errors import Invalid, TooLarge
from hookgw.records.connectors import NewEvent, Session


async def emit_valid(
    session: Session, events: Sequence[NewEvent], *, state: Any = msgspec.UNSET, logger: Any
) -> None:
    """Store events, and with them the connector's state, in one commit.

    An event that breaks a rule must not keep back the others, nor come again for ever. If there is one, each
    is stored by itself, then the state, and a line in the log names what was refused.

    Args:
        session: of the instance.
        events, state: see :meth:`hookgw.Session.emit_all`.
        logger: of structlog.

    Raises:
        Conflict, Unavailable: see :meth:`hookgw.Session.emit`.
    """
    try:
        await session.emit_all(events, state=state)
    except (Invalid, TooLarge):
        for event in events:
            try:
                await session.emit_all([event])
            except (Invalid, TooLarge) as error:
                logger.warning("event refused", instance=session.instance, kind=event.kind, reason=str(error))
        if state is not msgspec.UNSET:
            await session.emit_all([], state=state)
