"""The page of alerts in the dashboard."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args

from markupsafe import Markup

from hookgw import Invalid, PluginGateway
from hookgw.kernel.language import gettext as _
from hookgw.records.tags import tags_from
from hookgw.site.formats import time_element

from .options import On, check_rule, read_rule
from .service import RULE, Alerts, state_of
from .texts import describe

MOST_RULES = 100


class Page:
    """The open alerts, the channels, and the rules; those of the file are shown only."""

    def __init__(self, alerts: Callable[[], Alerts]) -> None:
        self._alerts = alerts

    async def render(self, gateway: PluginGateway, query: Mapping[str, str]) -> str:
        alerts, records = self._alerts(), await gateway.records.load()
        state, options = state_of(records), alerts.options
        open_alerts = _table(
            (_("Alert"), _("Since"), _("Problems")),
            (
                (describe(alert), time_element(alert.opened), len(alert.keys))
                for alert in state.alerts.values()
            ),
            _("No alert is open."),
        )
        channels = _table(
            (_("Channel"), _("Type"), ""),
            (
                (name, type(channel).__struct_config__.tag, _button(f"test:{name}", _("Send a test")))
                for name, channel in options.channels.items()
            ),
            _("There are no channels: alerts.channels in the configuration has them."),
        )
        in_file = ((rule, "", _("in the file")) for rule in options.rules)
        of_page = (
            (rule, reason, _button(f"remove:{key}", _("Remove")))
            for key, rule, reason in alerts.rules_of_dashboard(records)
        )
        rules = _table(
            (_("On"), _("For"), _("Instances"), _("Tags"), _("To"), ""),
            (
                (
                    ", ".join(rule.kinds),
                    str(rule.wait),
                    ", ".join(rule.instances) or _("all"),
                    " ".join(f"{name}={value}" for name, value in rule.tags.items()) or _("any"),
                    _("not in use: {reason}", reason=reason) if reason else ", ".join(rule.to),
                    last,
                )
                for rule, reason, last in (*in_file, *of_page)
            ),
            _("There are no rules: nobody is told of anything."),
        )
        # After a refusal, the query has what was entered.
        old = defaultdict(str, {"for": "5m", **query})
        kinds, names = _choices(get_args(On), old["on"]), _choices(options.channels, old["to"])
        form = Markup(
            "<h3>{title}</h3><div class='cards'>"
            "<label class='field'>{on} <select name='on'>{kinds}</select></label>"
            "<label class='field'>{wait} <input name='for' value='{old[for]}'></label>"
            "<label class='field'>{instances} "
            "<input name='instances' value='{old[instances]}' placeholder='{all_instances}'></label>"
            "<label class='field'>{tags} "
            "<input name='tags' value='{old[tags]}' placeholder='{any_tag}'></label>"
            "<label class='field'>{tell} <select name='to'>{names}</select></label>"
            "<label class='field'>{quiet} "
            "<input name='quiet' value='{old[quiet]}' placeholder='22:00-07:00'></label>"
            "<label class='field'>{remind} "
            "<input name='remind' value='{old[remind]}' placeholder='4h'></label></div><p>{button}</p>"
        ).format(
            old=old,
            title=_("Add a rule"),
            on=_("On"),
            kinds=kinds,
            wait=_("for at least"),
            instances=_("of instances"),
            all_instances=_("all, or shop*, crm"),
            tags=_("with tags"),
            any_tag=_("any, or tenant=acme"),
            tell=_("tell"),
            names=names,
            quiet=_("quiet"),
            remind=_("remind after"),
            button=_button("add", _("Add the rule")),
        )
        refused = Markup("").join(
            Markup("<p>{}</p>").format(
                _("{channel} does not take it: {reason}", channel=channels_of, reason=error)
            )
            for channels_of, error in sorted(
                {(", ".join(one.to), one.error) for one in state.notices.values() if one.failed}
            )
        )
        return Markup("<h2>{}</h2>{}{}<h2>{}</h2>{}<h2>{}</h2>{}{}").format(
            _("Open alerts"), open_alerts, refused, _("Channels"), channels, _("Rules"), rules, form
        )

    async def submit(self, gateway: PluginGateway, form: Mapping[str, str]) -> str | None:
        alerts, does = self._alerts(), form.get("do", "")
        what, name = does.partition(":")[::2]
        if what == "test":
            error = (await alerts.test(gateway, [name]))[name]
            if error:
                return _("{channel} does not take it: {reason}", channel=name, reason=error)
            return _("{channel} has the test.", channel=name)
        if what == "remove" and name.startswith(RULE):
            await gateway.records.put({name: None})
            return _("The rule is removed.")
        if what != "add":
            raise Invalid.of("alerts.no_button", "Choose a button of the page.")
        rule: dict[str, Any] = {
            "on": form.get("on", ""),
            "to": [form.get("to", "")],
            "for": form.get("for") or "1m",
        }
        rule |= {name: form[name].strip() for name in ("quiet", "remind") if form.get(name, "").strip()}
        if wanted := [part.strip() for part in form.get("instances", "").split(",") if part.strip()]:
            rule["instances"] = wanted
        if tags := form.get("tags", "").replace(",", " ").split():
            rule["tags"] = tags_from(tags)
        try:
            read = read_rule(rule)
            check_rule(read, alerts.options)
        except ValueError as error:
            raise Invalid.of(
                "alerts.rule_refused", "{reason}.", reason=f"{str(error)[:1].upper()}{str(error)[1:]}"
            ) from None
        stored = [key for key in await gateway.records.load() if key.startswith(RULE)]
        key = f"{RULE}{read.id}"
        if key in stored:
            raise Invalid.of("alerts.same_rule", "There is this rule already.")
        if len(stored) >= MOST_RULES:
            raise Invalid.of(
                "alerts.too_many_rules",
                "The dashboard takes {most} rules. Put the others into the configuration.",
                most=MOST_RULES,
            )
        await gateway.records.put({key: rule})
        return _("The rule is added.")


def _table(heads: tuple[str, ...], rows: Iterable[tuple[object, ...]], empty: str) -> Markup:
    cells = Markup("<td>{}</td>").format
    shown = Markup("").join(Markup("<tr>{}</tr>").format(Markup("").join(map(cells, row))) for row in rows)
    if not shown:
        return Markup("<p>{}</p>").format(empty)
    head = Markup("").join(Markup("<th>{}</th>").format(name) for name in heads)
    return Markup("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(head, shown)


def _choices(names: Iterable[str], chosen: str) -> Markup:
    option = Markup("<option{}>{}</option>").format
    return Markup("").join(option(Markup(" selected") if name == chosen else "", name) for name in names)


def _button(does: str, text: str) -> Markup:
    return Markup("<button name='do' value='{}'>{}</button>").format(does, text)
