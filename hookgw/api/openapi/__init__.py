"""The contract: what each route takes and answers, as ``/openapi.json`` and as a page to read.

A route declares itself where it is written, with :func:`~hookgw.api.openapi.describe.describes` over its
handler; its docstring is the summary. ``tests/api/contract`` fails for a route that does not, and the
clients of the tests in ``tests/api`` hold every answer, and every request that is answered with success,
to the document. So a new route needs:

- ``@describes("Tag", {200: responses.Something})``, with ``body=``, ``query=``, ``errors=`` where it has any;
- a type in :mod:`hookgw.api.responses` for what it answers;
- for a body, its JSON Schema in :mod:`hookgw.parsing.json_schemas`.

What follows from the path is added: the names in it, the key, and the errors that every such route has.
"""
