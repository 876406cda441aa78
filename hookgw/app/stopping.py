"""The order in which a gateway stops; :mod:`hookgw.app.starting` has that of the start."""

from __future__ import annotations

import trio

from hookgw.app.parts import Parts
from hookgw.app.plugin_tasks import PluginTasks

STOP_WITHIN = 1.0
"""Seconds for stopping everything else, if handing over the shards took all of the grace."""


async def stop(parts: Parts, plugins: PluginTasks) -> None:
    """Stop a gateway, in this order, within ``server.shutdown_grace``. Then cancel the rest."""
    core, connectors = parts.core, parts.instances.connectors
    ends = trio.current_time() + core.settings.server.shutdown_grace
    parts.events.intake.limit_observers(ends)  # of what connectors receive
    # While lanes and connectors run: each shard is handed over when its attempts have ended.
    await core.node.hand_over(ends)
    # Attempts that outlast the grace are cut off. Everything else here takes a moment.
    with trio.CancelScope(deadline=max(ends, trio.current_time() + STOP_WITHIN), shield=True):
        # Connectors first, so that they raise no more events; then no lane starts an attempt;
        # then re-partitions, which keep lanes paused; then what these have reported.
        await parts.instances.coverage.store()
        connectors.stop_all()
        await parts.instances.quiet.store()
        core.dispatcher.stop()
        core.pending.stop()
        await core.dispatcher.wait_stopped()
        await core.operational.drain()
        # Last, but before the HTTP clients are closed.
        await plugins.stop()
