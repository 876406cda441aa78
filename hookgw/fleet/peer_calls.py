"""Calls to other nodes that wait for an answer, and end early if none can be expected.

A frozen node keeps its connections open and is silent, and so is a node that the network hides. The frozen
node soon leaves the fleet. The hidden node may still send heartbeats to the database: so if a call has waited
for a while, its node is asked whether it can be reached. A living node may take as long as it needs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import structlog
import trio

from hookgw.fleet.fleet_node import FleetNode
from hookgw.fleet.lease import HEARTBEAT
from hookgw.kernel.collaborator import Collaborator
from hookgw.records.fleet import DEAD_AFTER, FleetMember, FleetView

PROBE_AFTER = 2.0
"""Seconds that a call has waited when its node is asked whether it can be reached; and between questions."""
PROBE_WITHIN = DEAD_AFTER
"""Seconds that it has to answer this. It does so at once, however busy it is."""

FINISH_WITHIN = 2.0
"""Seconds that a node has to answer a call for an instance that it has given to another one meanwhile."""

logger = structlog.get_logger("hookgw.fleet")


class _Call(Collaborator):
    node: FleetMember
    shard: int | None
    scope: trio.CancelScope
    since: float
    is_wanted: Callable[[], bool]
    moved: float | None = None

    def is_lost(self, view: FleetView, now: float) -> bool:
        """Return whether the view says that no answer can be expected."""
        if all(node.generation != self.node.generation for node in view.nodes):
            return True
        if self.shard is None or view.owners[self.shard] == self.node.generation:
            return False
        if self.moved is None:
            self.moved = now
        return now >= self.moved + FINISH_WITHIN


class PeerCalls:
    """The calls of this node that wait for others.

    Args:
        base_path: of the HTTP API, the same on all nodes.
    """

    def __init__(self, node: FleetNode, http: httpx.AsyncClient, base_path: str) -> None:
        self._node = node
        self._http = http
        self._path = f"{base_path}/healthz".encode()
        self._calls: set[_Call] = set()
        self._probed: set[int] = set()

    @contextmanager
    def waiting(
        self, node: FleetMember, shard: int | None = None, is_wanted: Callable[[], bool] = lambda: True
    ) -> Iterator[trio.CancelScope]:
        """Cancel the block when no answer of a node can be expected any more.

        Args:
            shard: of the call's instance; ``None`` if the call concerns the node itself.
            is_wanted: whether somebody still wants the answer; it is asked with each look at the fleet.

        Returns:
            The block's scope: ``cancelled_caught`` says afterwards whether it was cancelled.
        """
        with trio.CancelScope() as scope:
            call = _Call(node, shard, scope, trio.current_time(), is_wanted)
            self._calls.add(call)
            try:
                yield scope
            finally:
                self._calls.discard(call)

    async def run(self) -> None:
        """Watch the nodes for as long as calls wait for them, until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                # Also without heartbeats: the database may be away.
                with trio.move_on_after(HEARTBEAT):
                    await self._node.wait_viewed()
                now = trio.current_time()
                slow: defaultdict[int, list[_Call]] = defaultdict(list)
                for call in self._calls:
                    if call.is_lost(self._node.view, now) or not call.is_wanted():
                        call.scope.cancel()
                    elif now >= call.since + PROBE_AFTER and not call.scope.cancel_called:
                        slow[call.node.generation].append(call)
                for generation in slow.keys() - self._probed:
                    self._probed.add(generation)
                    nursery.start_soon(self._probe, slow[generation][0].node)

    async def _probe(self, node: FleetMember) -> None:
        url = httpx.URL(node.url).copy_with(raw_path=self._path)
        try:
            await self._http.get(url, timeout=PROBE_WITHIN)
        except httpx.TimeoutException:
            logger.warning("a node does not answer", node=node.name, url=node.url)
            for call in self._calls:
                if call.node.generation == node.generation:
                    call.scope.cancel()
        except httpx.HTTPError:
            pass  # a node that stops takes no more connections, and answers the calls that it has
        else:
            await trio.sleep(PROBE_AFTER)
        finally:
            self._probed.discard(node.generation)
