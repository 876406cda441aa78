"""Finds registrations with an address that the settings refuse, for the log and ``check-config``.

Their deliveries wait until the settings allow the address. A setting that a new configuration has lost is
noticed here, before a backlog grows. Names are not looked up: their addresses may change in a minute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import structlog
import trio

from hookgw.records.registrations import Registration, is_global
from hookgw.store import PendingChange

_AT_ONCE = 200

logger = structlog.get_logger("hookgw.outbound")


class RefusedAddress(NamedTuple):
    """A registration that cannot be reached, its pending deliveries, and the setting that would allow it."""

    registration: Registration
    pending: int
    reason: str

    def __str__(self) -> str:
        found, waiting = self.registration, "delivery" if self.pending == 1 else "deliveries"
        whose = "every instance" if is_global(found.id) else found.instance
        return f"Webhook {found.label} of {whose}, {self.pending:,} pending {waiting}: {self.reason}"


def refused_addresses(
    registrations: Iterable[Registration],
    refusal_of: Callable[[Registration], str | None],
    pending: Mapping[str, int],
) -> Iterator[RefusedAddress]:
    """Find the registrations with a literal address or port that is refused.

    Args:
        refusal_of: see :meth:`hookgw.delivery.outbound.OutboundHttp.known_refusal`.
        pending: how many deliveries are pending, by registration id.
    """
    for registration in registrations:
        if (reason := refusal_of(registration)) is not None:
            yield RefusedAddress(registration, pending.get(registration.id, 0), reason)


def by_registration(counts: PendingChange) -> Mapping[str, int]:
    found: Counter[str] = Counter()
    for (registration, _), (count, _) in counts.items():
        found[registration] += count
    return found


async def log_refused_addresses(
    registrations: Iterable[Registration],
    refusal_of: Callable[[Registration], str | None],
    pending: Mapping[str, int],
) -> None:
    for number, registration in enumerate(registrations):
        if number % _AT_ONCE == 0:
            await trio.lowlevel.checkpoint()  # ten thousand take longer than others should wait
        for found in refused_addresses([registration], refusal_of, pending):
            logger.warning(
                "nothing can be delivered to a webhook",
                instance=registration.instance,
                label=registration.label,
                pending=found.pending,
                reason=found.reason,
            )
