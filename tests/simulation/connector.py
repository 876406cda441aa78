"""A connector: it emits numbered events, and keeps the next number as its state, in the same commit."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import trio

import hookgw
from hookgw import ConnectionState, Connector, HookgwError, NewEvent, Session
from tests.simulation.history import Accepted, Resumed

if TYPE_CHECKING:
    from tests.simulation.world import World

CHAT = "5511900000000@s.whatsapp.net"
INSTANCE = "phone"
MOST = 12
"""Events of a run."""


class SimulatedConnector:
    """Emits events until there are enough, in one life after the other.

    Args:
        world: notes what was stored.
        chance: the seed's.
        calm: whether it emits nothing.
    """

    name = "simulated"
    message_types: tuple[type, ...] = ()

    def __init__(self, world: World, chance: random.Random, *, calm: bool) -> None:
        self._world = world
        self._chance = chance
        self._calm = calm

    @hookgw.hookimpl
    def hookgw_connectors(self) -> list[Connector]:
        return [self]

    async def run(self, session: Session) -> None:
        """Connect, then emit batches and single events."""
        world, chance = self._world, self._chance
        state = await session.load_state()
        following = int((state or {}).get("next", 1))
        world.note(Resumed(at=world.now, life=world.life, following=following))
        await session.set_state(ConnectionState.OPEN)
        while following <= MOST and not self._calm:
            await trio.sleep(chance.choice((0.0, 0.01, 3.0, 60.0)))
            count = chance.choice((1, 1, 3))
            events = [self._event(number) for number in range(following, following + count)]
            began, before = world.now, world.clients.wanting(INSTANCE, events[0].kind)
            try:
                await session.emit_all(events, state={"next": following + count})
            except HookgwError:
                continue  # a disk that refuses, or no room: the same events again
            if chance.random() < 0.1:
                raise RuntimeError("the network's own fault")
            if world.is_over:
                return
            world.note(
                Accepted(
                    at=world.now,
                    life=world.life,
                    began=began,
                    events=tuple(str(event.event_id) for event in events),
                    instance=INSTANCE,
                    chats=(CHAT,) * count,
                    **world.clients.wanted_since(before, INSTANCE, events[0].kind),
                )
            )
            following += count
        await trio.sleep_forever()

    async def send(self, session: Session, message: Any, *, key: str) -> dict[str, Any]:
        """Refuse: nobody sends messages."""
        raise NotImplementedError

    def _event(self, number: int) -> NewEvent:
        data = {"key": {"remoteJid": CHAT, "id": f"n{number}"}, "message": {}}
        return NewEvent(kind="MESSAGES_UPSERT", data=data, event_id=f"n{number}")
