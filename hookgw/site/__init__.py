"""The dashboard: pages for people, at ``/dashboard``.

The server renders every page. The frame's templates are in ``templates/dashboard/``, those of a slice's pages
in its own folder of that name; the modules and the stylesheet that pages load are in ``assets/``. Pages use
the gateway's parts as the HTTP API does, and know nothing of SQL.

To add a page, write a class in the ``pages`` of its slice that registers its views with ``Site.add``, and
make one of it in :class:`hookgw.app.dashboard.Dashboard`. ``add`` checks session and origin, and turns errors
into pages. A view of a form reads it with ``Site.form``, which checks the form token, and answers with a
redirect. A live part of a page is a fragment: a template that both the page and the stream render.
"""
