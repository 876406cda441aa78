from hookgw.site import HEIGHT, WIDTH, bars


def test_each_minute_has_its_place() -> None:
    drawn = bars([(0, 0), (10, 0), (5, 5)])
    assert [(bar.kind, bar.x) for bar in drawn] == [
        ("delivered", 241.0),
        ("delivered", 481.0),
        ("dead", 481.0),
    ]
    assert all(0 <= bar.y < bar.y + bar.height <= HEIGHT for bar in drawn)
    assert all(bar.x + bar.width <= WIDTH for bar in drawn)


def test_the_parts_of_a_minute_stand_on_each_other() -> None:
    delivered, dead = bars([(30, 10)])
    assert delivered.y + delivered.height == HEIGHT
    assert dead.y + dead.height == delivered.y


def test_a_single_one_among_thousands_shows() -> None:
    [_, dead] = bars([(100_000, 1)])
    assert dead.height >= 2


def test_nothing() -> None:
    assert bars([]) == []
    assert bars([(0, 0)] * 60) == []
