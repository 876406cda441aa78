"""Plugins' options with secret values: masked wherever registrations are shown. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hookgw.kernel.errors import Invalid
from hookgw.kernel.json_fields import MASKED
from hookgw.kernel.masking import MASK


class SecretOptions:
    """Knows which options are secrets, by plugin, for each plugin in use."""

    def __init__(self, names: Mapping[str, frozenset[str]]) -> None:
        self._names = names

    def masked(self, blocks: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a registration, by plugin, with a mask for each secret."""
        return {
            plugin: {
                # An empty one is shown, as everywhere: "no secret is set" is what people look for.
                option: MASK if self._is_secret(plugin, option) and value not in (None, "") else value
                for option, value in block.items()
            }
            for plugin, block in blocks.items()
        }

    def unmasked(self, given: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
        """Replace masked secrets with the stored ones. Raise ``Invalid`` if one is not stored."""
        problems = []
        found: dict[str, Any] = {}
        for plugin, block in given.items():
            found[plugin] = dict(block)
            for option, value in block.items():
                if value != MASK or not self._is_secret(plugin, option):
                    continue
                if option in stored.get(plugin, {}):
                    found[plugin][option] = stored[plugin][option]
                else:
                    problems.append(MASKED(where=f"plugins.{plugin}.{option}"))
        if problems:
            raise Invalid(*problems)
        return found

    def values(self, blocks: Mapping[str, Any]) -> set[str]:
        """Return the secret texts in options, also inside objects and lists."""
        return {
            text
            for plugin, block in blocks.items()
            # Exactly a dict: the code of a class must not run outside of the boundary around plugins.
            if type(block) is dict
            for option, value in block.items()
            if self._is_secret(plugin, option)
            for text in texts_in(value)
        }

    def _is_secret(self, plugin: str, option: str) -> bool:
        # If a plugin is gone or disabled, its secret options are unknown.
        return plugin not in self._names or option in self._names[plugin]


def texts_in(value: Any) -> Iterator[str]:
    """Yield the texts in a JSON value, also inside objects and lists."""
    if type(value) is str:
        yield value
    elif type(value) is dict or type(value) is list:
        for inner in value.values() if type(value) is dict else value:
            yield from texts_in(inner)
