"""Which remedy an alert gets."""

from healer.model.matchers import Matcher, MatchOp
from healer.model.plans import Remedy, StepSpec
from healer.rules.remedies import RemedyIndex, choose


def remedy(name: str, alert: str = "", *, priority: int = 0, after: tuple[str, ...] = (), **more: str) -> Remedy:
    matchers = [Matcher("alertname", MatchOp.EQUAL, alert)] if alert else []
    matchers += [Matcher(label, MatchOp.REGEXP, value) for label, value in more.items()]
    return Remedy(
        name=name, matchers=tuple(matchers), steps=(StepSpec(action="cordon"),), priority=priority, after=after
    )


def names(remedies: tuple[Remedy, ...]) -> list[str]:
    return [each.name for each in remedies]


DOWN = {"alertname": "Down", "zone": "a"}


def test_priority_decides_and_then_the_order_of_the_file() -> None:
    index = RemedyIndex(
        [
            remedy("low", "Down", priority=-1),
            remedy("first", "Down"),
            remedy("other", "Up", priority=9),
            remedy("second", zone="a|b"),
            remedy("high", "Down", priority=5),
        ]
    )
    chosen, superseded = index.choose(DOWN)
    assert chosen is not None
    assert chosen.name == "high"
    assert names(superseded) == ["first", "second", "low"]
    assert index.choose(DOWN) == (chosen, superseded)
    assert choose(index.remedies, DOWN) == (chosen, superseded)


def test_without_a_match_there_is_no_remedy() -> None:
    assert RemedyIndex([remedy("a", "Up"), remedy("b", zone="b")]).choose(DOWN) == (None, ())
    assert RemedyIndex([]).choose({}) == (None, ())


def test_a_ladder_is_climbed_rung_by_rung() -> None:
    index = RemedyIndex(
        [
            remedy("restart", "Down"),
            remedy("drain", "Down", after=("restart",)),
            remedy("replace", "Down", after=("restart", "drain")),
        ]
    )
    climbed = []
    failed: frozenset[str] = frozenset()
    while (chosen := index.choose(DOWN, failed)[0]) is not None:
        climbed.append(chosen.name)
        failed |= {chosen.name}
    assert climbed == ["restart", "drain", "replace"]


def test_the_next_rung_comes_before_an_equal_remedy_without_one() -> None:
    index = RemedyIndex([remedy("a", "Down"), remedy("b", "Down"), remedy("next", "Down", after=("a",))])
    chosen, superseded = index.choose(DOWN, frozenset({"a"}))
    assert chosen is not None
    assert chosen.name == "next"
    assert names(superseded) == ["b"]


def test_two_hundred_remedies_are_not_all_asked() -> None:
    index = RemedyIndex([remedy(f"r{n}", f"Alert{n}") for n in range(200)] + [remedy("any", zone="a")])
    asked = index._by_name.get("Alert7", [])
    assert len(asked) == 1
    assert names(index.matching({"alertname": "Alert7", "zone": "a"})) == ["r7", "any"]
