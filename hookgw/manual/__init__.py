"""The manual: ``docs/`` as pages, which each gateway serves at ``/docs``, and as a static site.

:mod:`hookgw.manual.make` makes the pages when hookgw is packaged, and :mod:`hookgw.manual.archive` reads
them. Importing this package imports nothing, because the build has none of hookgw's dependencies.
"""
