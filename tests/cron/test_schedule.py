"""What schedules mean, above all where clocks are moved."""

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from hermes.core.errors import UsageError
from hermes.cron.schedule import Schedule
from tests.cron import cron_fields

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
        ("", "not a schedule"),
        ("soon", "not a schedule"),
        ("* * * * * *", "six fields"),
        ("61 * * * *", "Bad minute"),
        ("0 0 31 2 *", "Bad day-of-month"),
        ("0 0 30 2 MON#6", "Bad day-of-week"),
        ("@reboot", "@reboot"),
        ("every 5s", "too short"),
        ("every 0m", "too short"),
        ("every 3 fortnights", "not a schedule"),
        ("2026-02-30", "not a time that exists"),
        ("9" * 9 + "w", "too short or too long"),
    ],
)
def test_what_is_no_schedule_is_refused_with_a_reason(text: str, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        Schedule.parse(text, "UTC", NOW)
    assert why in refused.value.message and refused.value.hint


THURSDAY = datetime(2026, 11, 26, 10, 30, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()


@pytest.mark.parametrize(
    ("texts", "fields"),
    [
        (
            ("every weekday at 8", "weekdays at 8:00", "mon-fri at 8am", "monday to friday at 8", "每个工作日8点"),
            "0 8 * * 1-5",
        ),
        (
            ("every day at 9am", "daily at 9", "every morning at nine", "每天早上9点", "每天九点", "每早9点"),
            "0 9 * * *",
        ),
        (
            ("every evening at 8", "each day at 8 in the evening", "daily at 8pm", "每晚8点", "每天晚上八点"),
            "0 20 * * *",
        ),
        (
            ("every monday at 9:15", "mondays at 9:15", "每周一9点15分", "每星期一上午9:15", "每周一九点一刻"),
            "15 9 * * 1",
        ),
        (("mon, wed and fri at 15:30", "每周一、三、五下午3点半", "每周一三五15:30"), "30 15 * * 1,3,5"),
        (("sat-sun at 10", "0 10 * * SAT-SUN", "every weekend at 10", "每周末10点"), "0 10 * * 6,0"),
        (("friday to monday at 7", "0 7 * * FRI-MON", "每周五到周一7点"), "0 7 * * 5,6,0,1"),
        (("every day at 8 and 20", "每天8点和20点"), "0 8,20 * * *"),
        (("on the 1st of every month at noon", "monthly on the 1st at 12:00", "每月1号中午12点"), "0 12 1 * *"),
        (("last day of the month at 18:00", "每月最后一天18点", "每月底18点"), "0 18 L * *"),
        (("every may 1 at 9", "every year on the 1st of may at 9am", "每年5月1日9点"), "0 9 1 5 *"),
        (("daily at midnight", "@daily", "every day at 12am", "每天零点"), "0 0 * * *"),
        (("every night at 12", "every day at 12 at night", "每晚12点", "每天半夜12点"), "0 0 * * *"),
        (
            ("monday mornings at 9", "weekly on monday at 9", "every week on monday at 9", "on monday mornings at 9"),
            "0 9 * * 1",
        ),
        (("mornings at 8", "in the mornings at 8", "8 in the morning every day"), "0 8 * * *"),
        (("monday and friday evenings at 7", "mon/fri at 7pm", "mon & fri at 19:00"), "0 19 * * 1,5"),
        (("周一至周五9点", "每週一到週五早上9點"), "0 9 * * 1-5"),
        (("周二、四9点", "周二和周四9点"), "0 9 * * 2,4"),
        (("周六日10点", "weekends at 10"), "0 10 * * 6,0"),
        (("每天早晚8点", "每天早上8点和晚上8点"), "0 8,20 * * *"),
        (
            (
                "1st and 15th of every month at 9",
                "the first and 15th of the month at 9",
                "every month on the 1st and 15th at 9",
                "每月1号和15号9点",
            ),
            "0 9 1,15 * *",
        ),
        (("15th of each month 9:00",), "0 9 15 * *"),
        (("first monday of the month at 9", "monthly on the first monday at 9", "每月第一个周一9点"), "0 9 * * 1#1"),
        (("last friday of every month at 5pm", "每月最后一个周五下午5点"), "0 17 * * 5L"),
        (("0 22-2 * * *",), "0 22,23,0,1,2 * * *"),
        (("0 0 1 NOV-FEB *",), "0 0 1 11,12,1,2 *"),
        (("0 22-4/2 * * *",), "0 22,0,2,4 * * *"),
    ],
)
def test_words_mean_what_fields_do(texts: tuple[str, ...], fields: str) -> None:
    meant = following(fields, "Europe/Berlin", "2026-11-26T10:30", 8)
    assert len(meant) == 8
    for text in texts:
        assert following(text, "Europe/Berlin", "2026-11-26T10:30", 8) == meant, text


@pytest.mark.parametrize(
    ("texts", "moment"),
    [
        (
            ("tomorrow 9am", "9am tomorrow", "tomorrow at 9", "tomorrow morning at 9", "明天9点", "明早九点"),
            "2026-11-27T09:00",
        ),
        (("at 9", "9am", "9:00"), "2026-11-27T09:00"),
        (("tonight at 8", "this evening at 8", "today at 20:00", "今晚8点", "今天20:00"), "2026-11-26T20:00"),
        (("monday at 9", "next monday at 9", "on monday at 9am", "下周一9点", "周一9点"), "2026-11-30T09:00"),
        (("thursday at 9", "next thursday at 9"), "2026-12-03T09:00"),
        (("noon", "at noon", "中午12点", "中午"), "2026-11-26T12:00"),
        (("may 1 at 9:00", "1st of may 9am", "may 1, 9:00", "5月1日9点"), "2027-05-01T09:00"),
        (("may 1, 2030 at 9", "1 may 2030 9:00", "2030年5月1日9点"), "2030-05-01T09:00"),
        (("in 3 days at 9am", "3天后9点"), "2026-11-29T09:00"),
        (("day after tomorrow at 15:00", "后天下午3点"), "2026-11-28T15:00"),
        (("in 2 minutes", "in two minutes", "2 minutes from now", "2分钟后", "两分钟以后"), "2026-11-26T10:32"),
        (("in half an hour", "in 30 minutes", "半小时后"), "2026-11-26T11:00"),
        (
            ("1h30m", "in 1 hour 30 minutes", "in an hour and a half", "一个半小时后", "1小时30分钟后"),
            "2026-11-26T12:00",
        ),
        (("in two weeks", "两周后"), "2026-12-10T10:30"),
        (("tonight at midnight", "tonight at 12", "今晚12点"), "2026-11-27T00:00"),
        (("tonight at 1", "今晚1点"), "2026-11-27T01:00"),
        (("tomorrow night at 1", "friday night at 1am", "明晚1点"), "2026-11-28T01:00"),
        (("24 dec at 6 pm", "24 december at 18:00"), "2026-12-24T18:00"),
        (("in fifteen minutes", "15 minutes later", "after 15 minutes", "一刻钟后"), "2026-11-26T10:45"),
        (("in twenty-five minutes", "二十五分钟后"), "2026-11-26T10:55"),
        (("1 hour 30 minutes from now", "1 hour 30 minutes later"), "2026-11-26T12:00"),
        (("1個小時後", "in one hour"), "2026-11-26T11:30"),
    ],
)
def test_words_that_mean_one_moment(texts: tuple[str, ...], moment: str) -> None:
    due = datetime.fromisoformat(moment).replace(tzinfo=ZoneInfo("Europe/Berlin")).timestamp()
    for text in texts:
        schedule = Schedule.parse(text, "Europe/Berlin", THURSDAY)
        assert schedule.once and schedule.next_after(THURSDAY) == due, text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("every half hour", 1_800),
        ("hourly", 3_600),
        ("each 2 hours", 7_200),
        ("every forty-five minutes", 2_700),
        ("every two hours", 7_200),
        ("每2小时", 7_200),
        ("每隔30分钟", 1_800),
    ],
)
def test_words_that_mean_an_interval(text: str, seconds: int) -> None:
    schedule = Schedule.parse(text, "UTC", NOW)
    assert not schedule.once and schedule.next_after(NOW) == NOW + seconds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("every weekday", "at what time"),
        ("tomorrow", "at what time"),
        ("明天", "at what time"),
        ("today at 9", "passed"),
        ("every day at 25", "does not exist"),
        ("every day at 13pm", "does not exist"),
        ("every friday night at 1", "after midnight"),
        ("每周五晚上12点", "after midnight"),
        ("every second monday at 9", "not a schedule"),
        ("每小时30分", "not a schedule"),
        ("40th of every month at 9", "day-of-month"),
        ("每天二十五点", "does not exist"),
        ("every day at 8:00 and 20:30", "make a job for each"),
        ("tomorrow at 8 and 9", "make a job for each"),
        ("every other day at 9", "not a schedule"),
        ("每隔一天", "not a schedule"),
        ("bananas at 9", "not a schedule"),
        ("every 30 seconds", "at least 60 seconds"),
        ("at " * 100 + "9", "not a schedule"),
    ],
)
def test_words_that_mean_nothing_are_refused_with_three_forms_that_work(text: str, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        Schedule.parse(text, "Europe/Berlin", THURSDAY)
    forms = re.findall("`([^`]+)`", refused.value.hint)
    assert why in refused.value.message and len(forms) == 3
    assert all(Schedule.parse(form, "Europe/Berlin", THURSDAY).next_after(THURSDAY) for form in forms)


def test_after_midnight_the_night_is_the_one_that_goes_on() -> None:
    now = datetime(2026, 11, 27, 0, 30, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()
    assert Schedule.parse("tonight at 1", "Europe/Berlin", now).next_after(now) == now + 1_800


def test_a_phrase_means_the_same_after_it_was_stored() -> None:
    first, again = (Schedule.parse("tomorrow 9am", "Asia/Tokyo", NOW) for _ in range(2))
    assert first.next_after(NOW) == again.next_after(NOW + 3_600)


@pytest.mark.parametrize("zone", ["Europe/Atlantis", "../../etc/passwd", "/etc/localtime", "", "Europe"])
def test_a_zone_that_does_not_exist_is_refused(zone: str) -> None:
    with pytest.raises(UsageError, match="no time zone"):
        Schedule.parse("@daily", zone, NOW)


def test_random_fields_mean_what_two_judges_say() -> None:
    assert cron_fields.run(400, seed=11) == []


def test_it_says_what_it_means() -> None:
    assert "09:00" in Schedule.parse("0 9 * * 1-5", "Europe/Berlin", NOW).describe()
    assert Schedule.parse("every 2h", "UTC", NOW).describe() == "every 2 h"
    assert Schedule.parse("every weekday at 8", "UTC", NOW).describe() == "every weekday at 8 (UTC)"


@pytest.mark.parametrize("day", ["tues", "thurs", "weds", "周1"])
def test_a_list_of_days_that_is_no_phrase_is_refused_in_no_more_than_moments(day: str) -> None:
    with pytest.raises(UsageError):
        Schedule.parse(",".join([day] * 23) + ",x", "UTC", NOW)
