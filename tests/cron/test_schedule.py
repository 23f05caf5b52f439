"""What schedules mean, above all where clocks are moved."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from hermes.core.errors import UsageError
from hermes.cron.schedule import Schedule

NOW = datetime(2026, 3, 2, 8, 0, tzinfo=UTC).timestamp()


def following(text: str, zone: str, begin: str, count: int) -> list[str]:
    """The next instants after a clock time in a zone, as its clock shows them."""
    where = ZoneInfo(zone)
    at: float | None = datetime.fromisoformat(begin).replace(tzinfo=where).timestamp()
    schedule, found = Schedule.parse(text, zone, NOW), []
    for _ in range(count):
        assert at is not None
        at = schedule.next_after(at)
        if at is None:
            break
        found.append(f"{datetime.fromtimestamp(at, where):%m-%d %H:%M%z}")
    return found


@pytest.mark.parametrize(
    ("text", "seconds"), [("30m", 1_800), ("2h", 7_200), ("in 3 days", 259_200), ("1w", 604_800), ("in 45s", 45)]
)
def test_once_in_a_while_from_now(text: str, seconds: int) -> None:
    schedule = Schedule.parse(text, "UTC", NOW)
    assert schedule.once and schedule.next_after(NOW) == NOW + seconds and schedule.next_after(NOW + seconds) is None


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-05-01T09:00", "2026-05-01T07:00:00+00:00"),
        ("2026-05-01 09:00", "2026-05-01T07:00:00+00:00"),
        ("2026-05-01", "2026-04-30T22:00:00+00:00"),
        ("2026-05-01T09:00Z", "2026-05-01T09:00:00+00:00"),
        ("2026-05-01T09:00-05:00", "2026-05-01T14:00:00+00:00"),
    ],
)
def test_a_time_is_by_the_clock_of_the_zone(text: str, at: str) -> None:
    assert Schedule.parse(text, "Europe/Berlin", NOW).next_after(NOW) == datetime.fromisoformat(at).timestamp()


def test_an_interval_counts_from_when_it_was_made() -> None:
    schedule = Schedule.parse("every 90 minutes", "Asia/Tokyo", NOW + 0.4)
    assert schedule.next_after(NOW) == NOW + 5_400
    assert schedule.next_after(NOW + 5_400) == NOW + 10_800
    assert schedule.next_after(NOW + 5_399.9) == NOW + 5_400
    assert Schedule.parse("every hour", "UTC", NOW).next_after(NOW) == NOW + 3_600


def test_cron_fields_and_names() -> None:
    assert following("0 9 * * 1-5", "UTC", "2026-03-06T10:00", 2) == ["03-09 09:00+0000", "03-10 09:00+0000"]
    assert following("30 6 L * *", "UTC", "2026-02-01T00:00", 2) == ["02-28 06:30+0000", "03-31 06:30+0000"]
    assert following("0 0 13 * FRI", "UTC", "2026-03-01T00:00", 3) == [
        "03-06 00:00+0000", "03-13 00:00+0000", "03-20 00:00+0000",
    ]  # fmt: skip
    assert following("@daily", "UTC", "2026-03-01T10:00", 1) == ["03-02 00:00+0000"]
    assert following("@Monthly", "UTC", "2026-03-01T10:00", 1) == ["04-01 00:00+0000"]


def test_an_hour_that_is_left_out() -> None:
    fixed = following("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", 2)
    assert fixed == ["03-29 03:00+0200", "03-30 02:30+0200"]
    two = following("0,30 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00", 3)
    assert two == ["03-29 03:00+0200", "03-29 03:30+0200", "03-30 02:00+0200"]
    often = following("*/30 * * * *", "Europe/Berlin", "2026-03-29T01:00", 3)
    assert often == ["03-29 01:30+0100", "03-29 03:00+0200", "03-29 03:30+0200"]
    assert following("*/20 2 * * *", "Europe/Berlin", "2026-03-28T12:00", 1) == ["03-30 02:00+0200"]


def test_an_hour_that_comes_twice() -> None:
    fixed = following("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", 2)
    assert fixed == ["10-25 02:30+0200", "10-26 02:30+0100"]
    often = following("0 * * * *", "Europe/Berlin", "2026-10-25T01:00", 3)
    assert often == ["10-25 02:00+0200", "10-25 02:00+0100", "10-25 03:00+0100"]


def test_from_within_the_second_pass_nothing_comes_again() -> None:
    where = ZoneInfo("America/New_York")
    second = datetime(2026, 11, 1, 1, 40, tzinfo=where, fold=1).timestamp()
    found = Schedule.parse("45 1 * * *", "America/New_York", NOW).next_after(second)
    assert found == datetime(2026, 11, 2, 1, 45, tzinfo=where).timestamp()


def test_the_southern_half_and_half_an_hour() -> None:
    assert following("30 2 * * *", "Australia/Sydney", "2026-10-03T12:00", 1) == ["10-04 03:00+1100"]
    assert following("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", 1) == ["10-04 02:30+1100"]
    howe = following("*/15 * * * *", "Australia/Lord_Howe", "2026-04-05T01:15", 5)
    assert howe == ["04-05 01:30+1100", "04-05 01:45+1100", "04-05 01:30+1030", "04-05 01:45+1030", "04-05 02:00+1030"]
    midnight = following("0 0 * * *", "America/Santiago", "2026-09-05T12:00", 1)
    assert midnight == ["09-06 01:00-0300"]


def test_a_time_in_an_hour_that_is_left_out_is_after_it() -> None:
    found = Schedule.parse("2026-03-29T02:30", "Europe/Berlin", NOW).next_after(NOW)
    assert found == datetime(2026, 3, 29, 1, 30, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no schedule"),
        ("soon", "no schedule"),
        ("* * * * * *", "six fields"),
        ("61 * * * *", "Bad minute"),
        ("0 0 31 2 *", "Bad day-of-month"),
        ("0 0 30 2 MON#6", "Bad day-of-week"),
        ("@reboot", "@reboot"),
        ("every 5s", "too short"),
        ("every 0m", "too short"),
        ("every 3 fortnights", "no length of time"),
        ("2026-02-30", "no time that exists"),
        ("9" * 9 + "w", "too short or too long"),
    ],
)
def test_what_is_no_schedule_is_refused_with_a_reason(text: str, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        Schedule.parse(text, "UTC", NOW)
    assert why in refused.value.message and refused.value.hint


@pytest.mark.parametrize("zone", ["Europe/Atlantis", "../../etc/passwd", "/etc/localtime", "", "Europe"])
def test_a_zone_that_does_not_exist_is_refused(zone: str) -> None:
    with pytest.raises(UsageError, match="no time zone"):
        Schedule.parse("@daily", zone, NOW)


def test_it_says_what_it_means() -> None:
    assert "09:00" in Schedule.parse("0 9 * * 1-5", "Europe/Berlin", NOW).describe()
    assert Schedule.parse("every 2h", "UTC", NOW).describe() == "every 2 h"
