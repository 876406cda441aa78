"""What a caller must be allowed to do for a document: what its parts need, whether or not they change it.

A plan compares secrets. So it is made only for a caller who may set them.
"""

from __future__ import annotations

from hookgw.accounts.document import Document
from hookgw.core.access import check, check_creation, check_right
from hookgw.core.registry import Registry
from hookgw.records.api_keys import Principal, Right


def check_document(registry: Registry, principal: Principal, document: Document, *, prunes: bool) -> None:
    """Check that a caller may apply a document.

    Raises:
        Forbidden: a right is missing, or an instance is out of reach.
    """
    if document.keys:
        check_right(principal, Right.KEYS)
    if prunes:
        for right in (Right.INSTANCES, Right.WEBHOOKS, Right.KEYS):
            check_right(principal, right)
    for declared in document.instances.values():
        # Rights first: a refusal for lack of one says nothing of the instance.
        if declared.webhooks:
            check_right(principal, Right.WEBHOOKS)
        if declared.options or declared.settings:
            check_right(principal, Right.CONNECT)
        if declared.tags:
            check_right(principal, Right.OPERATE)
        if registry.find_instance(declared.name) is None:
            check_creation(principal)
        else:
            check(registry, principal, Right.READ, declared.name)
