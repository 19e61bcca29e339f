from datetime import UTC, datetime

from healer.kube.contact import Contact


class HandClock:
    """Time as the test says."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)

    def monotonic(self) -> float:
        return self.seconds


def test_before_the_first_answer_nothing_is_healthy() -> None:
    clock = HandClock()
    contact = Contact(clock)
    clock.seconds += 8
    assert contact.silent_seconds == 8
    assert contact.healthy_seconds == 0


def test_health_counts_from_the_first_answer_after_a_failure() -> None:
    clock = HandClock()
    contact = Contact(clock)
    contact.answered()
    clock.seconds += 10
    contact.answered()
    assert contact.healthy_seconds == 10
    contact.failed()
    assert contact.healthy_seconds == 0
    clock.seconds += 5
    contact.answered()
    clock.seconds += 3
    assert contact.healthy_seconds == 3
    assert contact.silent_seconds == 3


def test_a_long_silence_is_a_break_even_if_nothing_failed() -> None:
    clock = HandClock()
    contact = Contact(clock)
    contact.answered()
    clock.seconds += 31
    assert contact.healthy_seconds == 0
    contact.answered()
    clock.seconds += 1
    assert contact.healthy_seconds == 1


def test_freshness_is_what_contact_and_caches_know_together() -> None:
    clock = HandClock()
    contact = Contact(clock)
    contact.answered()
    clock.seconds += 2
    fresh = contact.freshness(synced=True)
    assert (fresh.synced, fresh.silent_seconds, fresh.healthy_seconds) == (True, 2, 2)
