"""The settings of an instance: each form of them is made from its table of fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from quart import Response

from hookgw.core.access import tags_within
from hookgw.instances.fields import OPTIONS, SETTINGS
from hookgw.instances.pages.tabs import SETTINGS as TAB
from hookgw.instances.present import own_options, present_settings
from hookgw.instances.requests import parse_option_changes, parse_settings, parse_tags
from hookgw.kernel.errors import Conflict, Forbidden, Invalid
from hookgw.keys.pages import ShowInstance
from hookgw.records.api_keys import Right
from hookgw.records.instances import Instance
from hookgw.records.tags import tag_texts, tags_from
from hookgw.site.field_form import form_values, from_form, inputs_of, into_form
from hookgw.site.option_form import option_fields, read_options
from hookgw.site.seen import FIELD as SEEN
from hookgw.site.seen import seen, unchanged
from hookgw.site.site import Form, Page, Site, visitor


class InstanceSettingsTab(Page):
    """Shows and changes the settings; ``show`` shows the tab again, beside an error."""

    def __init__(self, site: Site, show: ShowInstance) -> None:
        super().__init__(site)
        self._show = show
        self._shown: dict[str, Callable[[Instance], Any]] = {
            "settings": lambda one: present_settings(one.settings),
            "options": lambda one: (own_options(one), site.gateway.instances.masked_options(one)),
            "tags": lambda one: one.tags,
        }
        path = "/instances/<instance>"
        for name, view, right in (
            ("settings", self.change_settings, Right.CONNECT),
            ("options", self.change_options, Right.CONNECT),
            ("tags", self.change_tags, Right.OPERATE),
            ("delete", self.delete, Right.INSTANCES),
        ):
            page = None if name == TAB.name else "/instances/{instance}/settings"
            site.add(f"{path}/{name}", view, right, "POST", page=page)

    async def values(self, instance: Instance, form: Form | None, at: str) -> dict[str, Any]:
        """Return what the template shows: the entered values of the form at a place, else the stored ones."""
        gateway = self._gateway
        schema = gateway.instances.options_schema(instance) if instance.integration else None
        entered = form if at == "options" else None
        options = option_fields(schema, gateway.instances.masked_options(instance), entered)
        limits, own = gateway.settings.limits.tags, own_options(instance)
        return {
            "settings": _inputs(
                SETTINGS,
                msgspec.to_builtins(present_settings(instance.settings)),
                form if at == "settings" else None,
            ),
            "seen": {
                name: seen(shown_of(instance), form if at == name else None)
                for name, shown_of in self._shown.items()
            },
            "own_options": _inputs(OPTIONS, {one.json: own[one.name] for one in OPTIONS}, entered),
            "options": await self._site.fragment("option_fields.html", fields=options) if options else "",
            "tags": form.text("tags")
            if form is not None and at == "tags"
            else " ".join(tag_texts(instance.tags)),
            # Limits are the operator's.
            "limits": [
                (name, instance.tags[name], one) for name, one in limits.items() if name in instance.tags
            ]
            if visitor().principal.is_global
            else [],
        }

    async def change_settings(self, instance: str) -> Response:
        form = await self._site.form()
        instances = self._gateway.instances
        instances.get(instance)
        try:
            change, _ = parse_settings(from_form(SETTINGS, form))
            warnings = await instances.change_settings(
                instance, change, unchanged(form, self._shown["settings"])
            )
            if warnings:
                form.drop(SEEN)  # it is stored
                raise Conflict(*warnings)
        except (Conflict, Invalid) as error:
            return await self._show(instance, form=form, at="settings", error=error)
        return self._saved(instance)

    async def change_options(self, instance: str) -> Response:
        """Change the options of every instance, and those of the connector."""
        form = await self._site.form()
        instances = self._gateway.instances
        found = instances.get(instance)
        try:
            own, _ = parse_option_changes(from_form(OPTIONS, form))
            schema = instances.options_schema(found) if found.integration else None
            change = read_options(form, schema, for_change=True)
            is_operator = visitor().principal.is_operator
            check = unchanged(form, self._shown["options"])
            await instances.change_options(instance, change, own, is_operator=is_operator, check=check)
        except (Conflict, Forbidden, Invalid) as error:
            return await self._show(instance, form=form, at="options", error=error)
        return self._saved(instance)

    async def change_tags(self, instance: str) -> Response:
        form = await self._site.form()
        self._gateway.instances.get(instance)
        try:
            tags = parse_tags({"tags": tags_from(form.get("tags").split(), "The tag")})
            check = unchanged(form, self._shown["tags"])
            tags = tags_within(visitor().principal, tags)
            await self._gateway.instances.change_tags(instance, tags, check)
        except (Conflict, Forbidden, Invalid) as error:
            return await self._show(instance, form=form, at="tags", error=error)
        return self._saved(instance)

    def _saved(self, instance: str) -> Response:
        return self._site.redirect(TAB.path(instance), done="saved")

    async def delete(self, instance: str) -> Response:
        """Delete the instance, if its name was entered."""
        form = await self._site.form()
        self._gateway.instances.get(instance)
        if form.get("confirmation") != instance:
            error = Invalid.of(
                "instance.deletion_unconfirmed",
                "Nothing was deleted: enter {instance} to confirm.",
                instance=instance,
            )
            return await self._show(instance, form=form, at="delete", error=error)
        job = await self._gateway.instances.delete(instance)
        return self._site.redirect("/instances", done="deleting" if job.is_running else "deleted")


def _inputs(table: Any, shown: Mapping[str, Any], form: Form | None) -> list[tuple[Any, Any, Any]]:
    """Return the kind, the input and the value of each field of a table that forms have."""
    values = into_form(table, shown) if form is None else form_values(table, form)
    return [(part.kind, one, values[one.name]) for _, part, one in inputs_of(table)]
