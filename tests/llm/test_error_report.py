"""Waiting times: where they are read from, which of several counts, what is no wish."""

import json

import pytest

from hermes.llm.error_report import MAX_WAIT, ErrorReport, find_retry_after, parse_span, read_error_body, seconds_until

NOW = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT


def asked(headers: dict[str, str], body: object = None, *, limited: bool = True) -> float | None:
    report = read_error_body(429, json.dumps(body).encode()) if body is not None else ErrorReport()
    return find_retry_after(headers, report, NOW, limited=limited)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:30 GMT"}, 10.0),
        ({"x-ratelimit-reset": "1700000021000"}, 21.0),  # OpenRouter: milliseconds since 1970
        ({"x-ratelimit-reset": "1700000033"}, 33.0),
        ({"x-ratelimit-reset": "12"}, 12.0),
        ({"x-ratelimit-reset-requests": "1s"}, 1.0),
        ({"x-ratelimit-reset-tokens": "6m0s"}, 360.0),
        ({"x-ratelimit-reset-tokens": "7.66s"}, 7.66),
        ({"x-ratelimit-reset-tokens": "120ms"}, 0.12),
        ({"x-ratelimit-reset-requests-day": "33011.38"}, 33011.38),  # Cerebras
        ({"anthropic-ratelimit-tokens-reset": "2023-11-14T22:14:00Z"}, 40.0),
        ({"anthropic-ratelimit-unified-reset": "1700003600"}, 3600.0),
    ],
)
def test_headers(headers: dict[str, str], seconds: float) -> None:
    assert asked(headers) == pytest.approx(seconds)


def test_the_limit_that_is_used_up_decides() -> None:
    both = {"x-ratelimit-reset-requests": "2m59s", "x-ratelimit-reset-tokens": "7.66s"}
    groq = {"x-ratelimit-limit-requests": "14400", "x-ratelimit-remaining-requests": "14370"}
    tokens = {"x-ratelimit-limit-tokens": "18000", "x-ratelimit-remaining-tokens": "0"}
    assert asked({**both, **groq, **tokens}) == 7.66
    assert asked({**both, **groq, **tokens, "x-ratelimit-remaining-tokens": "1200"}) == 7.66
    assert asked({**both, **groq, "x-ratelimit-remaining-requests": "0", "x-ratelimit-remaining-tokens": "9"}) == 179.0
    assert asked(both) == 179.0
    later = {"anthropic-ratelimit-requests-reset": "2023-11-14T22:13:21Z", "anthropic-ratelimit-requests-limit": "50"}
    empty = {
        "anthropic-ratelimit-input-tokens-reset": "2023-11-14T22:13:50Z",
        "anthropic-ratelimit-input-tokens-limit": "20000",
        "anthropic-ratelimit-input-tokens-remaining": "0",
    }
    assert asked({**later, "anthropic-ratelimit-requests-remaining": "49", **empty}) == 30.0


def test_limits_come_with_every_answer_and_count_only_when_one_was_met() -> None:
    headers = {"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset": "5"}
    assert asked(headers, limited=False) is None
    assert asked({**headers, "retry-after": "3"}, limited=False) == 3.0


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ({"error": {"message": "Rate limit reached. Please try again in 20s."}}, 20.0),
        ({"error": {"message": "Please try again in 6ms. Visit us."}}, 0.006),
        ({"error": {"message": "Please try again in 1m30.5s."}}, 90.5),
        ({"error": {"message": "Please try again in 2 days."}}, 172_800.0),
        ({"error": {"message": "Please retry after 86400 seconds."}}, 86_400.0),
        ({"error": {"message": "please try again after 1 seconds"}}, 1.0),
        ({"error": {"message": "Please retry in 10.689924287s."}}, 10.689924287),
        ({"error": {"message": "Resets in 3 hours 5 minutes"}}, 11_100.0),
        ({"error": {"message": "Usage limit reached, resets at 2023-11-14T22:15:00Z"}}, 100.0),
        ({"error": {"message": "x", "details": [{"@type": "RetryInfo", "retryDelay": "45.837906927s"}]}}, 45.837906927),
        ([{"error": {"message": "x", "details": [{"retryDelay": "21s"}]}}], 21.0),
        ({"error": {"message": "x", "resets_in_seconds": 13872, "resets_at": 1}}, 13872.0),
        ({"error": {"message": "x", "resets_at": 1_700_000_050}}, 50.0),
        ({"error": {"message": "x", "metadata": {"headers": {"X-RateLimit-Reset": "1700000009000"}}}}, 9.0),
        ({"error": {"message": "try again in a while, or in 5 minutes with another model"}}, None),
        ({"error": {"message": "Limit 100, try again later. 30s"}}, None),
        ({"error": {"message": "resets at 2023-11-14 22:15:00"}}, None),  # nobody knows whose clock
    ],
)
def test_bodies(body: object, seconds: float | None) -> None:
    assert asked({}, body) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    "value",
    [
        "",
        "soon",
        "-3",
        "inf",
        "nan",
        "1e309",
        "Tue, 99 Nov 2023 22:13:30 GMT",
        "Tue, 14 Nov 2023 22:13:10 GMT",
        "Tue, 14 Nov 2034 22:13:10 GMT",
        "2023-11-14T22:13:10Z",
        "1699999999",
        "99999999999999999999",
        str(MAX_WAIT + 1),
        "40 days",
        None,
        True,
        {},
        -1,
        float("nan"),
        10**400,
    ],
)
def test_what_is_no_wish(value: object) -> None:
    assert seconds_until(value, NOW) is None
    if isinstance(value, str):
        for name in ("retry-after", "retry-after-ms", "x-ratelimit-reset", "x-ratelimit-reset-tokens"):
            found = asked({name: value})
            assert found is None or 0 <= found <= MAX_WAIT


def test_a_clock_that_jumps_makes_no_nonsense() -> None:
    for now in (0.0, NOW - 1e8, NOW + 1e8, 4e9):
        assert seconds_until("1700000021", now) is None
        assert seconds_until("21s", now) == 21.0


def test_spans() -> None:
    assert [parse_span(text) for text in ("1h2m3s", "1 h 2 min 3 sec", "5 monkeys", "", "s")] == [
        3723.0,
        3723.0,
        None,
        None,
        None,
    ]
