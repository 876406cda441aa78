"""``hookgw demo``: the whole main job in one terminal."""
