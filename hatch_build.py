"""Makes the manual of ``docs`` when a wheel is built."""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManualHook(BuildHookInterface[Any]):
    """Adds the archive of the manual to the wheel. An editable installation makes it when it is asked for."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        root = Path(self.root)
        sys.path.insert(0, self.root)  # hookgw.manual.make imports nothing of what hookgw depends on
        try:
            make = importlib.import_module("hookgw.manual.make")
        finally:
            sys.path.remove(self.root)
        with tempfile.NamedTemporaryFile(suffix=".zip", delete=False) as file:
            self._made = Path(file.name)
            file.write(make.packed(root, self.metadata.version))
        build_data["force_include"][str(self._made)] = "hookgw/manual/manual.zip"

    def finalize(self, *_: Any) -> None:
        made = getattr(self, "_made", None)
        if made is not None:
            made.unlink()
