"""The routes that need no key, as their rules: what anybody may call is written down once, here."""

TOKEN_IN_PATH = frozenset(
    {
        "/ingest/<instance>/<token>",
        "/ingest/<instance>/<token>/<path:below>",
        "/media/<instance>/<token>",
    }
)
"""Networks and readers of events call these: no key is needed, and none helps."""
OPEN_ROUTES = TOKEN_IN_PATH | {
    "/",
    "/healthz",
    "/readyz",
    "/openapi.json",
    "/docs",
    "/docs/http",
    "/docs/<path:page>",
}
"""hookgw's own; plugins add theirs below ``/public/``."""
