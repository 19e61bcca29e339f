import json
from datetime import UTC, datetime
from typing import Any

import pytest

from healer import errors
from healer.kube import answers
from healer.kube.transport import Response

NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


def refusal(code: int, message: str = "no", *, reason: str = "", headers: Any = None, **details: Any) -> Response:
    status = {"kind": "Status", "code": code, "message": message, "reason": reason, "details": details}
    return Response(status=code, headers=headers or {}, body=json.dumps(status).encode())


def judge(response: Response, *, reading: bool = False) -> errors.ActionError:
    with pytest.raises(errors.ActionError) as caught:
        answers.check_response(response, doing="evicting pod/shop/web-1", reading=reading, now=NOW, namespace="shop")
    return caught.value


def cause(reason: str = "", message: str = "", field: str = "") -> list[dict[str, str]]:
    return [{"reason": reason, "message": message, "field": field}]


@pytest.mark.parametrize(
    ("response", "reading", "error"),
    [
        (refusal(301), True, errors.Permanent),
        (refusal(400), False, errors.Permanent),
        (refusal(401), False, errors.Retryable),
        (refusal(403), False, errors.Forbidden),
        (refusal(403, causes=cause("NamespaceTerminating")), False, errors.Retryable),
        (refusal(404), False, errors.NotFound),
        (refusal(408), True, errors.Retryable),
        (refusal(408), False, errors.OutcomeUnknown),
        (refusal(409, reason="AlreadyExists"), False, errors.Conflict),
        (refusal(409, reason="Conflict"), False, errors.Conflict),
        (refusal(410, reason="Expired"), True, errors.Gone),
        (refusal(422, reason="Invalid"), False, errors.Permanent),
        (refusal(422, causes=cause("FieldValueInvalid", "field is immutable", "metadata.uid")), False, errors.Conflict),
        (refusal(422, "the server rejected our request due to an error in our request"), False, errors.Conflict),
        (refusal(422, "is invalid", causes=cause("FieldValueInvalid", "", "spec.replicas")), False, errors.Permanent),
        (refusal(429), False, errors.Retryable),
        (refusal(429, causes=cause("DisruptionBudget", "no")), False, errors.BudgetBlocked),
        (refusal(500), True, errors.Retryable),
        (refusal(500), False, errors.OutcomeUnknown),
        (refusal(500, "This pod has more than one PodDisruptionBudget, which …"), False, errors.MultipleBudgets),
        (refusal(502), False, errors.OutcomeUnknown),
        (refusal(503), True, errors.Retryable),
        (refusal(504), False, errors.OutcomeUnknown),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else getattr(value, "status", str(value)),
)
def test_each_refusal_is_the_error_that_says_what_to_do(
    response: Response, reading: bool, error: type[errors.ActionError]
) -> None:
    assert type(judge(response, reading=reading)) is error


def test_an_answer_that_says_yes_is_handed_over() -> None:
    assert answers.check_response(Response(status=201, body=b"{}"), doing="", reading=False) == b"{}"


def test_budgets_that_hold_an_eviction_back_are_named_with_their_numbers() -> None:
    causes = cause("DisruptionBudget", "The disruption budget web needs 2 healthy pods and has 2 currently")
    blocked = judge(refusal(429, "Cannot evict pod as it would violate the pod's disruption budget.", causes=causes))
    assert isinstance(blocked, errors.BudgetBlocked)
    assert blocked.budgets == ("shop/web: needs 2 healthy pods and has 2 currently",)
    assert blocked.delay_seconds == 5.0


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("0", 1.0),
        ("-3", 1.0),
        ("soon", 1.0),
        ("99999999999999999999", 600.0),
        ("Mon, 05 Jan 2026 09:00:20 GMT", 20.0),
        ("Mon, 05 Jan 2026 08:00:00 GMT", 1.0),
    ],
)
def test_the_server_says_how_long_to_wait(header: str, seconds: float) -> None:
    error = judge(refusal(429, headers={"retry-after": header}))
    assert isinstance(error, errors.Retryable)
    assert error.delay_seconds == seconds


def test_how_long_to_wait_may_also_stand_in_the_status() -> None:
    error = judge(refusal(503, retryAfterSeconds=12), reading=True)
    assert isinstance(error, errors.Retryable)
    assert error.delay_seconds == 12.0


@pytest.mark.parametrize("body", [b"<html>Bad gateway</html>", b"", b"\xff\xfe", b"[]", b'{"message": 5}'])
def test_a_page_of_some_proxy_is_an_answer_too(body: bytes) -> None:
    assert isinstance(judge(Response(status=502, body=body), reading=True), errors.Retryable)


def test_a_message_names_what_was_asked_and_stays_short() -> None:
    text = str(judge(refusal(400, "x" * 10_000)))
    assert text.startswith("evicting pod/shop/web-1: 400 xxx")
    assert len(text) < 600


def test_a_server_that_breaks_down_has_not_answered() -> None:
    assert answers.is_answer(refusal(429))
    assert answers.is_answer(refusal(404))
    assert not answers.is_answer(refusal(500))
    assert answers.is_answer(refusal(500, "This pod has more than one PodDisruptionBudget, which …"))
