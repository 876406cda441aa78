"""A plugin that keeps the accepted events."""

from typing import Any

import trio

from hookgw import Event, hookimpl


class Observer:
    """Keeps the events that were accepted, and lets tests wait for them."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._changed = trio.Event()

    @hookimpl
    def hookgw_event_accepted(self, event: Event) -> None:
        self.events.append(event)
        self._changed.set()
        self._changed = trio.Event()

    def data_of(self, kind: str) -> list[Any]:
        return [event.data for event in self.events if event.kind == kind]

    async def wait_for(self, kind: str, count: int = 1) -> list[Any]:
        """Wait until so many events of a kind were accepted; return the payloads of all of them."""
        with trio.fail_after(20):
            while len(found := self.data_of(kind)) < count:
                await self._changed.wait()
        return found
