"""Operational events: what hookgw reports about itself."""
