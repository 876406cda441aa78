"""``hookgw import evolution``: take over the instances and webhooks of an Evolution API.

:mod:`~hookgw.instances.evolution.source` reads Evolution API or a file. Without I/O,
:mod:`~hookgw.instances.evolution.plan` decides what to do; :mod:`~hookgw.instances.evolution.command` shows
and applies the plan.
"""
