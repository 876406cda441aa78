"""Operational events, about hookgw itself."""
