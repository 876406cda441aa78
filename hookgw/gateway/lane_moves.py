"""Pending deliveries follow their registration to other lanes: in small steps, and over restarts.

Moving a long backlog takes seconds. So it is done in steps, each a commit of its own, and the order
holds because of three rules:

- The registration as it is now, and a note of the lanes where its deliveries may still be, come first, in
  one commit. From then on new events go to the new lanes, behind all that is moved there, since a
  delivery keeps its position. The note goes with the last step; who finds one at start goes on.
- The lanes that are left and those that are reached are paused until the last step is on disk. The
  reached ones also wait for what is on the wire from the others.
- A registration that is changed again meanwhile has the same move go on to its newest lanes, from the
  beginning, through all lanes in which anything of it may be. What is on the wire from a lane that it has
  left counts as in that lane until its end, also after the last step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import structlog
import trio

from hookgw.dispatch.dispatcher import Dispatcher
from hookgw.dispatch.store_retry import retry_until_readable
from hookgw.gateway.registry import Registry
from hookgw.models.errors import StorageUnavailable, Unavailable
from hookgw.models.events import Event
from hookgw.models.registrations import Registration, lane_of, lanes_of
from hookgw.store import Store
from hookgw.store.sqlite.relane import START, Cursor

logger = structlog.get_logger("hookgw.moves")


class Move:
    """One that is under way.

    Attributes:
        place: how far it has come.
        begun: its first step was tried.
        done: it is on disk, or there is nothing to move any more: the lanes may go on.
    """

    def __init__(self) -> None:
        self.place: Cursor = START
        self.begun = trio.Event()
        self.done = trio.Event()


class Moves:
    """Carries moves out; the arguments are the gateway's own parts."""

    def __init__(self, registry: Registry, store: Store, dispatcher: Dispatcher) -> None:
        self._registry = registry
        self._store = store
        self._dispatcher = dispatcher
        self._nursery: trio.Nursery | None = None
        self._step = trio.Lock()
        self._unfinished: dict[str, tuple[str, ...]] = {}
        self._running: dict[str, Move] = {}
        self._left: dict[str, list[tuple[str, trio.Event]]] = {}

    async def load(self) -> None:
        """Read which moves were cut off. The registry must be loaded."""
        noted = await self._store.load_moves()
        self._unfinished = {key: tuple(lanes) for key, lanes in noted.items()}

    def lanes(self, registration: Registration) -> tuple[str, ...]:
        """Every lane in which pending deliveries of a registration can be, or from which one is sent now."""
        left = (lane for lane, over in self._left.get(registration.id, ()) if not over.is_set())
        unfinished = self._unfinished.get(registration.id, ())
        return tuple(dict.fromkeys((*unfinished, *left, *lanes_of(registration))))

    def held(self) -> set[str]:
        """The lanes that must not be started before :meth:`run`: what is pending in them is to be moved."""
        return {lane for registration in self._cut_off() for lane in self.lanes(registration)}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Go on with moves that were cut off, and carry out new ones, until :meth:`stop`."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for registration in self._cut_off():
                lanes = self.lanes(registration)
                logger.info("moving goes on", registration=registration.id, lanes=len(lanes))
                self._hold(lanes, move := Move())
                self._start(registration.id, move)
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = None

    def stop(self) -> None:
        """Leave what is not moved yet to the next start. The dispatcher must have been stopped before."""
        nursery, self._nursery = self._nursery, None
        if nursery is not None:
            nursery.cancel_scope.cancel()
        for move in self._running.values():
            move.done.set()

    async def replace(self, old: Registration, new: Registration) -> None:
        """Put an enabled registration in the place of the old one, and let what is pending follow it.

        Returns once the registration is on disk and the first step was tried: a short backlog has been
        moved by then. The rest follows, however long the disk refuses.

        Raises:
            StorageUnavailable: the disk refuses, and the registration stays as it was.
            Unavailable: the gateway is not running.
        """
        if self._nursery is None:
            raise Unavailable("The gateway is not running.")
        async with self._step:
            self._store.check_open()  # lanes that were paused go on once the disk works, and not before
            move = self._running.get(new.id) or Move()
            before = self.lanes(old)
            on_the_wire = self._on_the_wire(before, new.id)
            self._hold(before, move)
            self._hold(lanes_of(new), move, [over for _, over in on_the_wire])
            try:
                await self._put(new, before)
            except BaseException:
                if new.id not in self._running:
                    move.done.set()
                raise
            self._left[new.id] = on_the_wire
            move.place = START
            if new.id not in self._running:
                self._start(new.id, move)
        await move.begun.wait()

    async def put(self, registration: Registration, before: Sequence[str]) -> None:
        """Store a disabled registration, and note where deliveries of it may be when it is enabled."""
        async with self._step:
            await self._put(registration, before)

    async def _put(self, registration: Registration, before: Sequence[str]) -> None:
        await self._registry.put(registration, moving=before)
        self._unfinished[registration.id] = tuple(before)

    async def forget(self, registration_id: str) -> None:
        """Nothing is pending for a registration in lanes that are not its own."""
        if registration_id in self._unfinished:
            await self._store.forget_move(registration_id)
            self._unfinished.pop(registration_id, None)

    def _cut_off(self) -> list[Registration]:
        """Registrations with a move that nobody carries out; what is disabled has nowhere to go."""
        found = (self._registry.registration(key) for key in self._unfinished if key not in self._running)
        return [registration for registration in found if registration is not None and registration.enabled]

    def _hold(self, lanes: Iterable[str], move: Move, also: Sequence[trio.Event] = ()) -> None:
        self._dispatcher.pause(lanes, until=[move.done, *also])

    def _on_the_wire(self, lanes: Iterable[str], registration_id: str) -> list[tuple[str, trio.Event]]:
        """From which lanes something is sent to a registration now, each with an event of its end."""
        under_way = self._dispatcher.under_way
        return [(lane, over) for lane in lanes for _, over in under_way([lane], registration_id)]

    def _start(self, registration_id: str, move: Move) -> None:
        if self._nursery is None:  # stopped while the registration was written: the next start goes on
            move.begun.set()
            move.done.set()
            return
        self._running[registration_id] = move
        self._nursery.start_soon(self._carry_out, registration_id, move)

    async def _carry_out(self, registration_id: str, move: Move) -> None:
        def held_up(error: StorageUnavailable) -> None:
            logger.warning("the outbox cannot be changed", registration=registration_id, reason=str(error))
            move.begun.set()

        try:
            while await retry_until_readable(partial(self._take_step, registration_id, move), held_up):
                move.begun.set()
        finally:
            move.begun.set()
        await self._forget_left(registration_id)

    async def _forget_left(self, registration_id: str) -> None:
        """Once nothing is on the wire from lanes that were left; a later move does it for its own."""
        for _, over in self._left.get(registration_id, ()):
            await over.wait()
        if all(over.is_set() for _, over in self._left.get(registration_id, ())):
            self._left.pop(registration_id, None)

    async def _take_step(self, registration_id: str, move: Move) -> bool:
        """Move some deliveries to where the registration is now; say whether there may be more.

        A registration that was disabled or deleted meanwhile ends the move: then its deliveries are
        parked, wherever they are.
        """
        async with self._step:
            registration = self._registry.registration(registration_id)
            lanes = self._unfinished.get(registration_id)
            if registration is not None and registration.enabled and lanes is not None:
                place = await self._store.relane_some(
                    registration_id, lanes, _lane_now(registration), move.place
                )
                if place is not None:
                    move.place = place
                    return True
                self._unfinished.pop(registration_id, None)
            del self._running[registration_id]
            move.done.set()
            return False


def _lane_now(registration: Registration) -> Callable[[Event], str] | str:
    return partial(lane_of, registration) if len(lanes_of(registration)) > 1 else registration.address
