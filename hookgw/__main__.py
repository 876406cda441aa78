"""Run the ``hookgw`` command as ``python -m hookgw``."""

from __future__ import annotations

from hookgw.command.completing import end_silently
from hookgw.command.descriptors import fill_descriptors
from hookgw.command.garbage import spare_imports

# Before anything large is imported.
fill_descriptors()
spare_imports()
end_silently()

import threading  # noqa: E402
from typing import Any  # noqa: E402

from hookgw.command import group  # noqa: E402


def main(**options: Any) -> None:
    """Run the command of the arguments; raise ``SystemExit`` at its end."""
    code = 1
    try:
        group.main(**options)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise
    finally:
        if threading.active_count() > 1:
            from hookgw.command.process import end_without_threads  # `hookgw --version` does without trio

            end_without_threads(code)


if __name__ == "__main__":
    main(prog_name="hookgw")
