"""The OpenAPI document of the API, and its HTML page.

Each route declares itself with :func:`~hookgw.web.openapi.describe.describes` above its handler; the
handler's docstring is the summary. ``tests/api/openapi`` fails for an undeclared route, and the clients of
``tests/api`` validate every response, and every successful request, against the document. A route needs:

- ``@describes("Tag", Right.READ, {200: responses.Something})``: the right that a caller needs, as
  :mod:`hookgw.web.needs` says, with ``body=``, ``query=``, ``errors=`` if it has any;
- a type in the ``responses`` of its slice for its response;
- for a body, a JSON Schema in :mod:`hookgw.app.json_schemas`.

The document adds what follows from the path: its variables, and the errors of every route.
"""
