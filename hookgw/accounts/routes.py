"""``/apply``: a document that says what should be there."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from quart import Response, request

from hookgw.accounts import responses
from hookgw.accounts.access import check_document
from hookgw.accounts.document import parse_document
from hookgw.accounts.export import export_keys
from hookgw.accounts.key_plan import plan_keys
from hookgw.accounts.responses import present_changes
from hookgw.accounts.service import change_instances, change_keys
from hookgw.core.access import within
from hookgw.core.long_work import run_in_slices
from hookgw.kernel.errors import Invalid, StorageUnavailable
from hookgw.kernel.form_text import truth_of
from hookgw.kernel.sentences import Sentence
from hookgw.records.api_keys import Right
from hookgw.web.auth import current_holder
from hookgw.web.body import check_key_again
from hookgw.web.needs import within_reach
from hookgw.web.openapi.describe import Parameter, describes, json_body
from hookgw.web.request_body import current_exchange, read_parsed, reserve
from hookgw.web.route_group import RouteGroup, route
from hookgw.web.server.errors import JSON
from hookgw.web.server.response_memory import LIST

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


class ApplyRoutes(RouteGroup):
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._limit = gateway.settings.server.max_batch_body

    @route("POST", "/apply")
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
            mistakes.append(
                Sentence(
                    "document.name_missing",
                    "name is missing: without it, nothing tells what this document has made.",
                )
            )
        holder, node = current_holder(), self._gateway.accounts
        principal = holder.principal
        await self._gateway.refresh.catch_up()  # other nodes may have changed something a moment ago
        check_document(self._gateway.registry, principal, document, prunes=prunes)
        keys, stored = self._gateway.keys, {}
        if document.keys or prunes:
            stored = {one.name: one for one in keys.list(None, seen_by=holder)}
        key_plans, same_keys, wrong = plan_keys(
            document,
            stored,
            self._gateway.instances.find,
            principal,
            names_of=keys.names_of,
            has_value=keys.has_value,
            prunes=prunes,
            now=self._gateway.clock.steady(),
        )
        plan = await run_in_slices(
            holder.counted_as or "",
            node.plan_all(document, [*mistakes, *wrong], principal, prunes=prunes),
        )
        changes = plan.changes + [one.planned for one in key_plans]
        made: list[tuple[str, str]] = []
        if not dry_run:
            changes = await change_instances(
                self._gateway.views.nodes,
                document,
                plan,
                prunes=prunes,
                holder=holder,
                check_key=partial(check_key_again, current_exchange()),
            )
            # After the instances that they name.
            done, made = await change_keys(keys, key_plans, holder, document.name)
            changes += done
            with suppress(StorageUnavailable):  # what was done is told anyway
                await self._gateway.refresh.catch_up()
        body = msgspec.json.encode(
            responses.Applied(
                name=document.name or None,
                dry_run=dry_run,
                changes=present_changes(changes),
                unchanged=plan.same + same_keys,
                failed=sum(one.is_failed for one in changes),
                keys=[responses.AppliedKey(name=name, key=key) for name, key in made],
                warnings=document.warnings,
            )
        )
        if dry_run:  # the answer to what is done is never refused
            await reserve(len(body))
        return Response(body, content_type=JSON)

    @route("GET", "/apply")
    @describes(
        "Instances",
        within_reach(Right.READ),
        {200: responses.Exported},
        query=(_flag("signingSecrets", "Also name the webhooks' signing secrets."),),
    )
    async def export(self) -> Response:
        """Return the instances that are there, with their webhooks, as a document for `POST /apply`.

        It has no secrets: `secrets` lists those that it needs. Keys are listed without their values, which
        hookgw does not have.
        """
        signing = _read_flags("signingSecrets")["signingSecrets"]
        holder = current_holder()
        await reserve(LIST)  # the document is in memory while it waits for more
        await self._gateway.refresh.catch_up()  # a copy must not lack what other nodes have just made
        chosen = within(self._gateway.registry, holder.principal)
        document, needed = await run_in_slices(
            holder.counted_as or "",
            self._gateway.accounts.export(chosen, with_signing_secrets=signing),
        )
        keys = self._gateway.keys
        if holder.principal.rights.has(Right.KEYS) and (
            found := export_keys(keys.list(None, seen_by=holder), keys.names_of, self._gateway.clock.steady())
        ):
            document["keys"] = found
        body = msgspec.json.encode(responses.Exported(document=document, secrets=needed))
        await reserve(len(body))
        return Response(body, content_type=JSON)


def _read_flags(*names: str) -> dict[str, bool]:
    values = dict.fromkeys(names, False)
    problems = []
    for name, given in request.args.items():
        if (truth := truth_of(given)) is None:  # some mean true by ?dryRun alone
            problems.append(Sentence("query.not_boolean", "{name} must be true or false.", name=name))
        else:
            values[name] = truth
    if problems:
        raise Invalid(*problems)
    return values
