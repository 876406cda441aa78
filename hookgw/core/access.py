"""The one check of what a caller may do: a right, on an instance.

Rights come first, and then reach. A refusal for lack of a right says nothing of the instance, and the refusal
of an instance is the same whether it belongs to somebody else or does not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hookgw.core.registry import Registry
from hookgw.kernel.errors import Forbidden, ForeignKey
from hookgw.kernel.sentences import Sentence
from hookgw.records.api_keys import Principal, Right
from hookgw.records.instances import Instance
from hookgw.records.tags import has_tags

OUT_OF_REACH = Sentence("key.out_of_reach", "This key does not reach that instance.")
OUT_OF_TAG = Sentence.declared(
    "key.out_of_tag", "This key does not reach instances with another {name} than {value}."
)
NO_NEW_INSTANCE = Sentence(
    "key.no_new_instance",
    "This key is for instances that exist: a new one would be out of its reach.",
)
NOT_GLOBAL = Sentence("key.global_needed", "This call requires a global key.")


def reaches(registry: Registry, principal: Principal, instance: str) -> bool:
    """Return whether an instance is within a caller's reach now."""
    return principal.reaches(instance, registry.find_instance(instance))


def check_right(principal: Principal, right: Right, label: str | None = None) -> None:
    """Raise ``Forbidden`` if a caller lacks a right, whatever the instance."""
    if not principal.rights.has(right, label):
        # With the label, a key for one webhook says why another one's deliveries are refused.
        asked = right if label is None or right not in principal.rights.names else f"{right}:{label}"
        raise Forbidden.of("right.missing", "This key does not have the right '{right}'.", right=asked)


def check_reach(registry: Registry, principal: Principal, instance: str) -> None:
    """Raise ``ForeignKey`` if an instance is out of reach, or does not exist within it."""
    if not reaches(registry, principal, instance):
        raise ForeignKey(OUT_OF_REACH)


def check_reach_of_tags(principal: Principal, tags: Mapping[str, str]) -> None:
    """Raise ``ForeignKey`` if no instance with some tags is within a caller's reach."""
    for name, value in principal.reach.tags:
        if tags.get(name, value) != value:
            raise ForeignKey(OUT_OF_TAG(name=name, value=value))


def check_global(principal: Principal) -> None:
    """Raise ``ForeignKey`` if a caller does not reach everything."""
    if not principal.is_global:
        raise ForeignKey(NOT_GLOBAL)


def within(registry: Registry, principal: Principal) -> list[Instance]:
    """Return the instances within a caller's reach now, sorted by name."""
    if principal.is_global:
        return registry.instances()
    if principal.instance is not None:
        one = registry.find_instance(principal.instance)
        return [one] if one is not None and principal.reaches(one.name, one) else []
    return [one for one in registry.tagged(principal.reach.tags) if principal.reach.includes(one)]


def names_within(
    registry: Registry, principal: Principal, tags: Iterable[tuple[str, str]] = ()
) -> tuple[str, ...] | None:
    """Return the names of the instances within a caller's reach now, sorted; ``None`` for everything.

    With ``tags``, return only those that carry all of them.
    """
    wanted = tuple(tags)
    if principal.is_global:
        return tuple(one.name for one in registry.tagged(wanted)) if wanted else None
    return tuple(one.name for one in within(registry, principal) if has_tags(one.tags, wanted))


def may_create(principal: Principal) -> bool:
    """Return whether a caller may create instances: a new one is in no reach by ids."""
    is_open = principal.instance is None and principal.reach.instances is None
    return is_open and principal.rights.has(Right.INSTANCES)


def tags_within(principal: Principal, asked: Mapping[str, str]) -> dict[str, str]:
    """Return the tags that a caller gives an instance: those asked for, and those of its reach.

    Otherwise the instance would count, and be open, to somebody else.

    Raises:
        Forbidden: the caller may not set those asked for.
    """
    reach = dict(principal.reach.tags)
    if not asked.items() <= reach.items():
        check_right(principal, Right.OPERATE)
    check_reach_of_tags(principal, asked)
    return {**asked, **reach}


def check_creation(principal: Principal) -> None:
    """Raise ``Forbidden`` if a caller may not create instances."""
    check_right(principal, Right.INSTANCES)
    if not may_create(principal):
        raise ForeignKey(NO_NEW_INSTANCE)
