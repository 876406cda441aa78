"""Load hookgw's own plugins faster: tests open thousands of gateways, and each loads 80 modules anew.

Only the modules inside of a plugin's package are shared. The packages themselves, which hold the plugins'
objects and their state, run for each gateway, and so do plugins of a single file. What was checked of a class
of connectors, or of an event kind, is not checked again.
"""

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from hookgw import EventKind
from tests.public.plugins import CheckedConnector, check_connector, check_kind

PREFIX = "_hookgw_plugins_"
"""What the packages of plugin folders are called, with a number for each load."""
_SCHEMA = "options_schema"


class FirstPartyModules(MetaPathFinder):
    """Finds modules inside of a first-party plugin's package among those of the first load.

    Args:
        folder: of the first-party plugins.
    """

    def __init__(self, folder: Path) -> None:
        self._path = [str(folder)]
        self._first = ""
        self._connectors: dict[tuple[object, ...], CheckedConnector] = {}
        self._kinds: dict[str, EventKind] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to import a module that was imported before, for another gateway."""
        package, _, name = fullname.partition(".")
        if not package.startswith(PREFIX) or list(sys.modules[package].__path__) != self._path:
            return None
        # Not of a failed import: that is repeated.
        self._first = self._first or package
        known = sys.modules.get(f"{self._first}.{name}") if "." in name else None
        if known is None:
            return None
        # Modules that the known one has imported are attributes of the new package, too.
        first, new = known.__name__.rpartition(".")[0], sys.modules[fullname.rpartition(".")[0]]
        for attribute, value in vars(sys.modules[first]).items():
            if isinstance(value, ModuleType) and value.__name__ == f"{first}.{attribute}":
                vars(new).setdefault(attribute, value)
        return ModuleSpec(fullname, _Again(known))

    def check_connector(self, connector: Any, reserved: frozenset[str] = frozenset()) -> CheckedConnector:
        """In place of hookgw's ``check_connector``: look at a first-party class once with each schema."""
        kind = type(connector)
        if not kind.__module__.startswith(f"{self._first}."):  # a class of a module that is not shared
            return check_connector(connector, reserved)
        # What it says of itself can depend on its options.
        said = (kind, *(repr(getattr(connector, name, None)) for name in ("name", "message_types", _SCHEMA)))
        if said not in self._connectors:
            self._connectors[said] = check_connector(connector, reserved)
        known = self._connectors[said]
        methods = {name: getattr(connector, name) for name in known.methods}
        return CheckedConnector(known.name, methods, known.message_types, known.options_schema)

    def check_kind(self, kind: object) -> EventKind:
        """In place of hookgw's ``check_kind``: look at each kind once."""
        text = repr(kind)  # unlike ==, tells 0 from False
        if text not in self._kinds:
            self._kinds[text] = check_kind(kind)
        return self._kinds[text]

    def forget(self, before: set[str]) -> None:
        """Remove the modules of plugins that are not in a set of names, except those of the first load."""
        for name in [name for name in sys.modules if name.startswith(PREFIX) and name not in before]:
            if name.partition(".")[0] != self._first:
                del sys.modules[name]


class _Again(Loader):
    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        # The import has set the new one, whose name is not that of the module's package.
        module.__spec__ = self._spec
