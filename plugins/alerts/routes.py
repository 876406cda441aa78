"""The calls of the plugin."""

from __future__ import annotations

from typing import Any

from quart import request
from quart_trio import QuartTrio

from hookgw import Invalid, PluginGateway, Right, describes
from hookgw.kernel.fields import write_time
from hookgw.web.openapi.describe import Body

from .service import Alerts, state_of
from .watch import Alert

TEST = Body(
    {
        "application/json": {
            "type": "object",
            "properties": {"channels": {"type": "array", "items": {"type": "string"}}},
            "additionalProperties": False,
        }
    },
    required=False,
)


def add_routes(app: QuartTrio, gateway: PluginGateway, alerts: Alerts) -> None:
    @app.get("/alerts/list")
    @describes("Alerts", {200: dict[str, Any]}, needs=Right.READ)
    async def list_alerts() -> dict[str, Any]:
        """List the open alerts, and the channels.

        ``refused`` has the messages that no channel has taken so far, each with why; they are tried again.
        ``leftOut`` has the rules of the dashboard that tell nobody, each with why.
        """
        records = await gateway.records.load()
        state = state_of(records)
        return {
            "alerts": [_shown(alert) for alert in state.alerts.values()],
            "waiting": len(state.notices),
            "refused": [
                {"alert": one.alert, "channels": one.to, "attempts": one.failed, "error": one.error}
                for one in state.notices.values()
                if one.failed
            ],
            "channels": [*alerts.options.channels],
            "leftOut": [
                {"on": rule.kinds, "to": rule.to, "reason": reason}
                for _, rule, reason in alerts.rules_of_dashboard(records)
                if reason
            ],
        }

    @app.post("/alerts/test")
    @describes("Alerts", {200: dict[str, Any]}, body=TEST)
    async def test_channels() -> dict[str, Any]:
        """Send a test through channels, by default all of them.

        Each channel has ``error``: why it has not taken the test, or ``null``.
        """
        body = await request.get_json(force=True) if await request.get_data() else {}
        if not isinstance(body, dict) or not body.keys() <= {"channels"}:
            raise Invalid.of(
                "alerts.body_form", 'The body must be an object such as {{"channels": ["phone"]}}.'
            )
        names = body.get("channels", [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise Invalid.of("alerts.channels_form", 'channels must be a list of names, such as ["phone"].')
        results = await alerts.test(gateway, names)
        return {"channels": [{"name": name, "error": error} for name, error in results.items()]}


def _shown(alert: Alert) -> dict[str, Any]:
    return {
        "id": alert.id,
        "on": alert.on,
        "since": write_time(alert.opened),
        "count": len(alert.keys),
        "problems": [{"instance": one.instance, "label": one.label, "why": one.why} for one in alert.lines],
    }
