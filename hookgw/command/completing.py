"""What happens while a shell asks which words may come next, because somebody has pressed Tab."""

from __future__ import annotations

import os
import signal

COMPLETE = "_HOOKGW_COMPLETE"
"""click's variable: a shell sets it when it asks."""


def end_silently() -> None:
    """Let Ctrl-C end a process that a shell asks, without a traceback in the line that somebody edits."""
    if COMPLETE in os.environ:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
