"""What the single binary runs: the ``hookgw`` command."""

from __future__ import annotations

import fcntl
import sys
from pathlib import Path

from hookgw.__main__ import main


def keep_archive() -> None:
    """Let later imports read this program, also after an upgrade has put another one in its place.

    PyInstaller opens the program by its name at each import, and hookgw imports much when it is first used.
    """
    archive = sys.modules["pyimod02_importers"].pyz_archive
    with Path(archive._filename).open("rb") as program:  # noqa: SLF001 -- it has no other access
        # Not 0 to 2: a service may run with closed standard streams.
        kept = Path(f"/proc/self/fd/{fcntl.fcntl(program, fcntl.F_DUPFD_CLOEXEC, 3)}")
    if kept.exists():
        archive._filename = str(kept)  # noqa: SLF001


keep_archive()
main(prog_name="hookgw")
