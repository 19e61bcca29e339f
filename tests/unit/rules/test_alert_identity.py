"""Episodes: what names an alert and one occurrence of it."""

import datetime as dt

from healer.model.series import Labels
from healer.rules.identity import episode_id, fingerprint

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
LABELS = Labels({"alertname": "Down", "instance": "a"})


def test_the_cluster_is_part_of_the_identity() -> None:
    assert fingerprint("eu1", LABELS) != fingerprint("us1", LABELS)
    assert episode_id("eu1", LABELS, START) != episode_id("us1", LABELS, START)


def test_a_fingerprint_is_the_same_everywhere_and_does_not_confuse_neighbours() -> None:
    assert fingerprint("eu1", LABELS) == "b6f33647d9e0b546"
    assert fingerprint("c", Labels({"ab": "c"})) != fingerprint("c", Labels({"a": "bc"}))
