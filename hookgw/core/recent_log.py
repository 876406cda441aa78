"""The last lines of the process's log, for the dashboard."""

from __future__ import annotations

import logging
from collections import deque

LINES = 200
"""How many lines are kept."""


class RecentLog(logging.Handler):
    """Keeps the last records, and formats them only when they are read: most never are."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: deque[logging.LogRecord | str] = deque(maxlen=LINES)

    def emit(self, record: logging.LogRecord) -> None:
        # A traceback would keep alive what its frames refer to, so it becomes text now.
        self._kept.append(self.format(record) if record.exc_info else record)

    def lines(self) -> list[str]:
        kept = list(self._kept)  # at once: other threads log meanwhile
        return [one if isinstance(one, str) else self.format(one) for one in reversed(kept)]


recent_log = RecentLog()
"""The process-wide buffer that ``configure_logging`` installs."""
