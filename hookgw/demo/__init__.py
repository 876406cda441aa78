"""``hookgw demo``: the gateway, a simulated account and failing receivers in one terminal."""
