"""Which instances carry a tag."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class TagIndex:
    """The names of instances, by the tags that they carry."""

    def __init__(self) -> None:
        # Most values of some tags belong to one instance, as a phone number does: a set for each would take
        # more memory than the instances themselves.
        self._names: dict[str, dict[str, str | set[str]]] = {}

    def change(self, instance: str, old: Mapping[str, str], new: Mapping[str, str]) -> None:
        """Note that an instance's tags were ``old`` and are ``new``."""
        if old == new:
            return
        for tag in old.items() - new.items():
            self._remove(instance, *tag)
        for name, value in new.items() - old.items():
            values = self._names.setdefault(name, {})
            found = values.get(value)
            if found is None:
                values[value] = instance
            elif isinstance(found, set):
                found.add(instance)
            else:
                values[value] = {found, instance}

    def _remove(self, instance: str, name: str, value: str) -> None:
        values = self._names[name]
        found = values[value]
        if isinstance(found, set):
            found.discard(instance)
            if len(found) == 1:
                (values[value],) = found
        else:
            del values[value]
            if not values:
                del self._names[name]

    def with_all(self, wanted: Iterable[tuple[str, str]]) -> set[str]:
        """Return the names of the instances that carry all of at least one tag."""
        found = [self._with(name, value) for name, value in wanted]
        return set.intersection(*sorted(found, key=len))

    def _with(self, name: str, value: str) -> set[str]:
        found = self._names.get(name, {}).get(value, set())
        return found if isinstance(found, set) else {found}

    def values(self, name: str) -> list[str]:
        return sorted(self._names.get(name, ()))

    def names(self) -> list[str]:
        """Return the names of the tags that instances carry, sorted."""
        return sorted(self._names)
