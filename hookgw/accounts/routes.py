"""``/apply``: a document that says what should be there."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from quart import Blueprint, Response, request

from hookgw.accounts import responses
from hookgw.accounts.access import check_document
from hookgw.accounts.document import parse_document
from hookgw.accounts.responses import present_changes
from hookgw.accounts.service import change_instances
from hookgw.core.access import within
from hookgw.core.long_work import run_in_slices
from hookgw.kernel.errors import Invalid, StorageUnavailable
from hookgw.records.api_keys import Right
from hookgw.web.auth import current_holder
from hookgw.web.needs import within_reach
from hookgw.web.openapi.describe import Parameter, describes, json_body
from hookgw.web.request_body import json_response, read_parsed, reserve

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway

MAX_VALUES = 500_000
"""Values of a document: 5,000 instances with three webhooks each have half as many."""
_BODY = json_body(
    "ApplyRequest",
    an_instance_with_a_webhook={
        "name": "acme",
        "instances": {
            "loja1": {"connector": "simulator", "webhooks": {"crm": {"url": "https://crm.example"}}}
        },
    },
)


def _flag(name: str, meaning: str) -> Parameter:
    return Parameter(name, meaning, {"type": "boolean"}, may_be_empty=True)


class ApplyRoutes:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._limit = gateway.settings.server.max_batch_body

    def blueprint(self) -> Blueprint:
        blueprint = Blueprint("apply", __name__)
        blueprint.add_url_rule("/apply", view_func=self.apply, methods=["POST"])
        blueprint.add_url_rule("/apply", view_func=self.export)
        return blueprint

    @describes(
        "Instances",
        within_reach(Right.READ),
        {200: responses.Applied},
        body=_BODY,
        query=(
            _flag("dryRun", "Only say what would change."),
            _flag("prune", "Delete what an earlier apply of the document has made, and it no longer has."),
        ),
    )
    async def apply(self) -> Response:
        """Make instances, webhooks and keys as a document says.

        What the document does not have stays as it is. A part that fails does not stop the others: `failed`
        says how many there are. A document with mistakes gets 400 with all of them, and changes nothing.

        The key needs the rights of its parts: `instances` for new ones and for `prune`, `connect` for options
        and settings, `operate` for tags, `webhooks`, and `keys`.
        """
        dry_run, prunes = _read_flags("dryRun", "prune").values()
        document, mistakes = await read_parsed(self._limit, parse_document, max_values=MAX_VALUES)
        if prunes and not document.name:
            mistakes.append("name is missing: without it, nothing tells what this document has made.")
        holder, node = current_holder(), self._gateway.accounts
        principal = holder.principal
        if self._gateway.node.is_shared:
            with suppress(StorageUnavailable):
                await self._gateway.refresh.catch_up()
        check_document(self._gateway.registry, principal, document, prunes=prunes)
        plan = await run_in_slices(
            holder.counted_as or "", node.plan_all(document, mistakes, principal, prunes=prunes)
        )
        changes = plan.changes
        if not dry_run:
            changes = await change_instances(
                self._gateway.views.nodes,
                document,
                plan,
                prunes=prunes,
                principal=principal,
            )
            if self._gateway.node.is_shared:
                with suppress(StorageUnavailable):
                    await self._gateway.refresh.catch_up()
        return json_response(
            responses.Applied(
                name=document.name or None,
                dry_run=dry_run,
                changes=present_changes(changes),
                unchanged=plan.same,
                failed=sum(one.is_failed for one in changes),
                keys=[],
                warnings=document.warnings,
            )
        )

    @describes(
        "Instances",
        within_reach(Right.READ),
        {200: responses.Exported},
        query=(_flag("signingSecrets", "Also name the webhooks' signing secrets."),),
    )
    async def export(self) -> Response:
        """Return the instances that are there, with their webhooks, as a document for `POST /apply`.

        It has no secrets: `secrets` lists those that it needs.
        """
        signing = _read_flags("signingSecrets")["signingSecrets"]
        holder = current_holder()
        chosen = within(self._gateway.registry, holder.principal)
        document, needed = await run_in_slices(
            holder.counted_as or "",
            self._gateway.accounts.export(chosen, with_signing_secrets=signing),
        )
        secrets = [
            responses.NeededSecret(variable=one.variable, paths=one.paths, is_text=one.is_text)
            for one in needed
        ]
        body = msgspec.json.encode(responses.Exported(document=document, secrets=secrets))
        await reserve(len(body))
        return Response(body, content_type="application/json")


def _read_flags(*names: str) -> dict[str, bool]:
    # A misspelt dryRun must not change everything.
    values = dict.fromkeys(names, False)
    problems = []
    for name, given in request.args.items():
        if name not in values:
            known = " and ".join(names)
            problems.append(f"{name[:64]!r} in the query is not known; this call has {known}.")
        elif given not in ("", "true", "false"):
            problems.append(f"{name} must be true or false.")
        else:
            values[name] = given == "true"
    if problems:
        raise Invalid(*problems)
    return values
