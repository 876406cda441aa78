"""The HTTP API of a gateway without a server."""

from quart import Blueprint

from hookgw import Gateway
from tests.public.app import add_routes, application_of
from tests.public.kernel import finish
from tests.public.web import AppApplication as Application


def create_app(gateway: Gateway, *pages: Blueprint) -> Application:
    """Return the API, with the routes of the gateway's plugins. It need not be closed.

    Args:
        pages: further routes, which check the caller themselves: the dashboard's.
    """
    app = application_of(gateway)
    finish(add_routes(app, gateway, *pages))
    return app
