"""Responses about documents of ``apply``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct

from hookgw.accounts import plan
from hookgw.accounts.export import NeededSecret
from hookgw.kernel.masking import repr_without
from hookgw.web.present import shown
from hookgw.web.responses import Count


class Change(Struct, frozen=True, kw_only=True):
    """A difference between a document and what is there.

    Attributes:
        action: `create`, `change` or `delete`; `conflict` for what `apply` cannot change.
        kind: what it is.
        name: of the instance, or of the key.
        label: of the webhook; ``null`` for the others.
        fields: those that are not as the document says, without values.
        state: `planned` if it was not tried.
        messages: why it failed, in sentences; of one that is done, warnings.
    """

    action: Literal["create", "change", "delete", "conflict"]
    kind: Literal["instance", "webhook", "key"]
    name: str
    label: str | None
    fields: list[str]
    state: Literal["planned", "done", "failed"]
    messages: list[str]


class AppliedKey(Struct, frozen=True, kw_only=True):
    """A key that was created.

    Attributes:
        name: its name.
        key: the key itself, which is shown only here.
    """

    name: str
    key: str

    __repr__ = repr_without("key")


class Applied(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a document changes, or has changed.

    Attributes:
        name: of the document; ``null`` if it has none.
        dry_run: whether nothing was done.
        changes: in the order of the document.
        unchanged: how many instances, webhooks and keys are as the document says.
        failed: how many of the changes failed, or are conflicts.
        keys: new keys whose values hookgw has made.
        warnings: what is allowed and probably not meant.
    """

    name: str | None
    dry_run: bool
    changes: list[Change]
    unchanged: Count
    failed: Count
    keys: list[AppliedKey]
    warnings: list[str]


class Exported(Struct, frozen=True, kw_only=True):
    """What is there, as a document.

    Attributes:
        document: the body of `POST /apply`. In texts, `${NAME}` stands for a secret, and `$${` for `${`.
        secrets: the secrets that it needs.
    """

    document: dict[str, Any]
    secrets: list[NeededSecret]


def present_changes(changes: Iterable[plan.Change]) -> list[Change]:
    return [shown(Change, one, label=one.label or None) for one in changes]
