"""Failures of plugins' long-lived code that starts again: connectors, and background tasks."""

from __future__ import annotations

import trio

from hookgw.core.operational.events import OperationalEvents
from hookgw.kernel.errors import PluginFailed
from hookgw.plugins.supervise import WAITS
from hookgw.records.failing_task import FailingTask


class PluginRestarts:
    """Remembers failing tasks, for metrics, and raises an event at the first failure of a series."""

    def __init__(self, operational: OperationalEvents) -> None:
        self._operational = operational
        # By instance, or by plugin for a background task: each has one.
        self._tasks: dict[tuple[str | None, str], FailingTask] = {}

    def failed(self, failure: PluginFailed, wait: float, instance: str | None = None) -> None:
        """Note a failure, of the instance's connector if one is given. The restart follows after a wait."""
        key, now = (instance, "" if instance is not None else failure.plugin), trio.current_time()
        task = self._tasks.get(key)
        is_new = task is None or now > task.forget_at
        self._tasks[key] = FailingTask(
            plugin=failure.plugin,
            hook=failure.hook,
            instance=instance,
            reason=failure.reason,
            failures=1 if task is None or is_new else task.failures + 1,
            # As long as a run must last to be a good one; see restart_on_failure.
            forget_at=now + wait + WAITS[-1],
        )
        if is_new:
            self._operational.plugin_failing(failure, instance, wait)

    def ended(self, instance: str) -> None:
        """Forget the connector of an instance, which does not start again."""
        self._tasks.pop((instance, ""), None)

    def failing(self) -> list[FailingTask]:
        now = trio.current_time()
        return [task for task in self._tasks.values() if now <= task.forget_at]
