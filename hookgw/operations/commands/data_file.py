"""The data file that the configuration names, for commands that work on files."""

from __future__ import annotations

from pathlib import Path

from hookgw.command.failure import Failed
from hookgw.config.settings import StorageSettings
from hookgw.kernel.language import gettext as _


def data_file(settings: StorageSettings) -> Path:
    if settings.engine == "postgresql":
        raise Failed(
            _(
                "The data is in a database (storage.engine: postgresql): use its own tools, such as "
                "pg_dump and VACUUM. docs/fleet.md says how."
            )
        )
    return Path(settings.path)
