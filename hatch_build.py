"""Makes the manual of ``docs``, and compiles the translations, when a wheel is built."""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManualHook(BuildHookInterface[Any]):
    """Adds the archive of the manual and the compiled catalogues to the wheel.

    An editable installation makes the manual when it is asked for. Its catalogues are compiled into ``build``
    now, because Babel may be missing later.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self._made: list[Path] = []
        # pip builds the wheel to learn which Python it needs: on an older one, the imports below would fail.
        python = ".".join(map(str, sys.version_info[:3]))
        if python not in (needed := self.metadata.core.python_constraint):
            sys.exit(f"hookgw needs Python {needed}, and this is {python}.")
        root = Path(self.root)
        sys.path.insert(0, self.root)  # these import nothing of what hookgw depends on
        try:
            compiling = importlib.import_module("hookgw.locale.compiling")
            catalogues = importlib.import_module("hookgw.locale.catalogues")
            make = importlib.import_module("hookgw.manual.make")
        finally:
            sys.path.remove(self.root)
        for language, source in catalogues.sources(root / "hookgw" / "locale"):
            if version == "editable":
                catalogues.catalogue(language)
            else:
                target = f"hookgw/locale/{language}/{catalogues.FILE}.mo"
                build_data["force_include"][self._file(compiling.compiled(source.read_bytes()))] = target
        if version != "editable":
            manual = make.packed(root, self.metadata.version)
            build_data["force_include"][self._file(manual)] = "hookgw/manual/manual.zip"

    def _file(self, content: bytes) -> str:
        with tempfile.NamedTemporaryFile(delete=False) as file:
            file.write(content)
        self._made.append(Path(file.name))
        return file.name

    def finalize(self, *_: Any) -> None:
        for made in self._made:
            made.unlink()
