"""Episodes: which reports are one occurrence."""

import datetime as dt

from healer.model.alerts import Alert, AlertStatus
from healer.model.series import Labels
from healer.rules.identity import Episode, episode_id, fingerprint, follow

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
LABELS = Labels({"alertname": "Down", "instance": "a"})


def seconds(count: float) -> dt.timedelta:
    return dt.timedelta(seconds=count)


def alert(status: AlertStatus, starts: float = 0, ends: float | None = None, cluster: str = "eu1") -> Alert:
    return Alert(
        cluster=cluster,
        status=status,
        labels=LABELS,
        starts_at=START + seconds(starts),
        ends_at=None if ends is None else START + seconds(ends),
    )


def firing(starts: float = 0) -> Alert:
    return alert(AlertStatus.FIRING, starts)


def resolved(starts: float = 0, ends: float = 60) -> Alert:
    return alert(AlertStatus.RESOLVED, starts, ends)


def run(*reports: tuple[float, Alert], hold: float = 0) -> list[Episode]:
    episodes: list[Episode] = []
    known: Episode | None = None
    for at, report in reports:
        known = follow(known, report, now=START + seconds(at), hold=seconds(hold))
        episodes.append(known)
    return episodes


def test_the_cluster_is_part_of_the_identity() -> None:
    assert fingerprint("eu1", LABELS) != fingerprint("us1", LABELS)
    assert episode_id("eu1", LABELS, START) != episode_id("us1", LABELS, START)


def test_a_fingerprint_is_the_same_everywhere_and_does_not_confuse_neighbours() -> None:
    assert fingerprint("eu1", LABELS) == "b6f33647d9e0b546"
    assert fingerprint("c", Labels({"ab": "c"})) != fingerprint("c", Labels({"a": "bc"}))


def test_repeats_belong_to_one_episode_even_when_the_start_is_off_a_little() -> None:
    ids = {episode.id for episode in run((0, firing()), (60, firing(3)), (120, firing(-4)), (180, resolved(1)))}
    assert len(ids) == 1


def test_a_new_start_after_a_resolve_is_a_new_episode() -> None:
    first, over, second = run((0, firing()), (60, resolved()), (300, firing(290)))
    assert first.id == over.id
    assert over.status is AlertStatus.RESOLVED
    assert second.id != first.id


def test_the_same_start_after_a_resolve_is_still_the_old_episode() -> None:
    first, _, third = run((0, firing()), (60, resolved()), (300, firing(2)))
    assert third.id == first.id
    assert third.status is AlertStatus.FIRING


def test_firing_again_within_the_hold_time_is_the_same_episode() -> None:
    first, _, again = run((0, firing()), (60, resolved()), (100, firing(95)), hold=60)
    assert again.id == first.id
    first, _, later = run((0, firing()), (60, resolved()), (121, firing(115)), hold=60)
    assert later.id != first.id


def test_a_new_start_without_a_resolve_does_not_split_the_episode() -> None:
    first, second = run((0, firing()), (600, firing(590)))
    assert first.id == second.id


def test_a_resolution_of_an_older_occurrence_does_not_end_the_newer() -> None:
    *_, newer, late = run((0, firing()), (60, resolved()), (300, firing(290)), (310, resolved(0, 60)))
    assert late == newer


def test_six_changes_in_ten_minutes_are_flapping_in_one_episode() -> None:
    reports = [(at * 60.0, firing(at * 60) if at % 2 == 0 else resolved((at - 1) * 60, at * 60)) for at in range(6)]
    episodes = run(*reports, hold=300)
    assert len({episode.id for episode in episodes}) == 1
    last, now = episodes[-1], START + seconds(310)
    assert last.transitions_within(seconds(600), now) == 6
    assert last.is_flapping(now=now, window=seconds(600), threshold=6)
    assert not last.is_flapping(now=now, window=seconds(100), threshold=3)


def test_the_memory_of_changes_is_bounded() -> None:
    reports = [(at * 1.0, firing(at) if at % 2 == 0 else resolved(at - 1, at)) for at in range(500)]
    assert len(run(*reports, hold=300)[-1].changes) == 64
