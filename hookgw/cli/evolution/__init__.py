"""``hookgw import evolution``: take over the instances and webhooks of an Evolution API.

:mod:`~hookgw.cli.evolution.source` reads Evolution API or a file, :mod:`~hookgw.cli.evolution.plan` decides
what to do, without I/O, and :mod:`~hookgw.cli.evolution.command` shows and applies the plan.
"""
