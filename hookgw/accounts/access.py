"""What a caller must be allowed to do for a document: what its parts need, whether or not they change it.

A plan compares secrets. So it is made only for a caller who may set them.
"""

from __future__ import annotations

from hookgw.accounts.document import DeclaredInstance, Document
from hookgw.core.access import check_creation, check_reach, check_right, reaches, tags_within
from hookgw.core.registry import Registry
from hookgw.records.api_keys import Principal, Right


def check_document(registry: Registry, principal: Principal, document: Document, *, prunes: bool) -> None:
    """Check that a caller may apply a document, except its instances.

    Raises:
        Forbidden: a right is missing, or an instance that a key names is out of reach.
    """
    if document.keys:
        check_right(principal, Right.KEYS)
    for ((_, fields),) in document.keys.values():
        names = fields.get("instances")
        for name in names if isinstance(names, list) else ():
            if isinstance(name, str) and name not in document.instances:
                check_reach(registry, principal, name)
    if prunes:
        for right in (Right.INSTANCES, Right.WEBHOOKS, Right.KEYS):
            check_right(principal, right)


def check_instance(registry: Registry, principal: Principal, declared: DeclaredInstance) -> None:
    """Check that a caller may make an instance as it is declared.

    Raises:
        Forbidden: a right is missing, or the instance is out of reach.
    """
    # Rights first: a refusal for lack of one says nothing of the instance.
    if declared.webhooks:
        check_right(principal, Right.WEBHOOKS)
    if declared.options or declared.settings:
        check_right(principal, Right.CONNECT)
    exists = registry.find_instance(declared.name) is not None
    if exists and reaches(registry, principal, declared.name):
        check_right(principal, Right.OPERATE if declared.tags else Right.READ)
    else:
        # Another tenant's, too: a caller that creates none must not learn which names exist.
        check_creation(principal)
        if exists:
            check_reach(registry, principal, declared.name)
    # Those that the document gives it must be within the caller's reach, or the caller an operator.
    layers = (layer for _, layer in reversed(declared.tags))
    given = {name: tag for layer in layers for name, tag in layer.items() if isinstance(tag, str)}
    tags_within(principal, given)
