"""Refuses events while the disk has little space left, so that it never runs full.

A full disk refuses the outcomes of deliveries, too. So events are refused before that, and pending deliveries
go on.
"""

from __future__ import annotations

import structlog
import trio

from hookgw.kernel.errors import StorageUnavailable, Unavailable
from hookgw.kernel.units import Size
from hookgw.store import DiskSpace, Store

logger = structlog.get_logger("hookgw.storage")

CHECK_EVERY = 1.0
"""Seconds between two looks at the disk, if little is written."""

# The write-ahead log cannot use the free pages of the data file, so some space of the disk must be free, too.
_LOG_PART = 4

# More bytes than are written until the next look.
_NO_LIMIT = 2**62


class DiskSpaceWatch:
    """Measures the disk, beside the events: once a second, and after much was written.

    Args:
        min_free: bytes that must be free for events to be accepted; 0 disables the watch.

    Attributes:
        found: the newest measurement; ``None`` before the first, without a watch, and if the storage is on
            another machine.
        shortage: a sentence about too little space; ``None`` while there is enough.
    """

    def __init__(self, store: Store, min_free: int) -> None:
        self.found: DiskSpace | None = None
        self.shortage: str | None = None
        self._store = store
        self._min_free = min_free
        self._unknown = ""  # why the last measurement failed
        # How much may be written until the next look, and what wakes it early.
        self._budget = 0
        self._spent = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Watch until cancelled. It has started once the disk was measured."""
        await self._measure()
        task_status.started()
        while True:
            self._spent = trio.Event()
            with trio.move_on_after(CHECK_EVERY):
                await self._spent.wait()
            await self._measure()

    def check(self) -> None:
        """Raise ``Unavailable`` if there is no space for events."""
        if self.shortage is not None:
            raise Unavailable.of(
                "storage.disk_full", "{shortage} Nothing was stored; retry later.", shortage=self.shortage
            )

    def written(self, size: int) -> None:
        """Note that about so many bytes were written."""
        self._budget -= size
        if self._budget < 0:
            self._spent.set()

    async def _measure(self) -> None:
        try:
            self.found = found = await self._store.disk_space()
        except StorageUnavailable as error:
            # A disk that fails refuses writes by itself.
            if str(error) != self._unknown:
                self._unknown = str(error)
                logger.warning("the free disk space is unknown", reason=self._unknown)
            self._budget = self._min_free // 16
            return
        self._unknown = ""
        if found is None:
            self._budget = _NO_LIMIT
            return
        free = max(found.free - found.unfolded, 0)
        usable = free + found.reusable
        is_low = usable < self._min_free or free < self._min_free // _LOG_PART
        if is_low != (self.shortage is not None):
            logger.warning(
                "little disk space, events are refused"
                if is_low
                else "enough disk space, events are accepted",
                free=found.free,
                reusable=found.reusable,
            )
        # Without the path: tenants read this. Rounded down, or 511.9 MiB would be less than 512 MiB.
        limit = f"storage.min_free ({Size(self._min_free)})"
        self.shortage = None
        if usable < self._min_free:
            self.shortage = f"The disk has {_shown(usable)} left for events, less than {limit}."
        elif is_low:
            self.shortage = (
                f"The disk has {_shown(free)} left beside the data file, less than a quarter of {limit}."
            )
        # A quarter of the remaining space, so that a fast producer cannot pass the threshold unseen; but not
        # less than this, or a nearly full disk would be measured all the time.
        self._budget = max((usable - self._min_free) // 4, self._min_free // 16)


def _shown(size: int) -> str:
    return f"{size // 2**20:,} MiB" if size >= 2**20 else f"{size:,} bytes"
