"""A job in one line: the schedule and the task are told apart without quotes."""

import pytest

from hermes.core.errors import UsageError
from hermes.cron.job_phrases import split_job

NOW = 1_800_000_000.0
DAILY = "every day at 7"


@pytest.mark.parametrize(
    ("line", "schedule", "task"),
    [
        ("every day at 7: take my pills", DAILY, "take my pills"),
        ("every day at 7 take my pills", DAILY, "take my pills"),
        ("every day at 7, take my pills", DAILY, "take my pills"),
        ("take my pills every day at 7", DAILY, "take my pills"),
        ('"every day at 7" take my pills', DAILY, "take my pills"),
        ("“every day at 7” take my pills", DAILY, "take my pills"),
        ("tomorrow 9:00 - call mum", "tomorrow 9:00", "call mum"),
        ("at 17:30: leave", "at 17:30", "leave"),
        ("30m stretch", "30m", "stretch"),
        ("in half an hour check the oven", "in half an hour", "check the oven"),
        ("every 2h - drink, now: yes", "every 2h", "drink, now: yes"),
        ("mondays and thursdays at 7:15 water mum's plants", "mondays and thursdays at 7:15", "water mum's plants"),
        ("0 9 * * 1-5 Tell me the news", "0 9 * * 1-5", "Tell me the news"),
        ("@daily SAY: x", "@daily", "SAY: x"),
        ("2030-05-01 09:00 party", "2030-05-01 09:00", "party"),
        ("每天早上7点：吃药", "每天早上7点", "吃药"),
        ("每天早上7点吃药", "每天早上7点", "吃药"),
        ("every 2h", "every 2h", ""),
    ],
)
def test_a_line_is_a_schedule_and_a_task(line: str, schedule: str, task: str) -> None:
    assert split_job([line], "UTC", NOW) == (schedule, task)


@pytest.mark.parametrize(
    ("words", "schedule", "task"),
    [
        (["every 2h", "look at 3 things"], "every 2h", "look at 3 things"),
        (["30m", "5 minutes of rest"], "30m", "5 minutes of rest"),
        (["every", "day", "at", "7:", "take", "my", "pills"], DAILY, "take my pills"),
        (["every day at 7: take my pills"], DAILY, "take my pills"),
        (["@daily"], "@daily", ""),
    ],
)
def test_words_of_a_command_line_keep_what_quotes_have_joined(words: list[str], schedule: str, task: str) -> None:
    assert split_job(words, "UTC", NOW) == (schedule, task)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("buy milk", "does not say when. For instance: cron add every day at 7: take my pills"),
        ("7 dwarfs", "does not say when"),
        ("monday: call mum", "does not say at what time"),
        ("today at 0:01 call mum", "has passed already"),
    ],
)
def test_what_is_no_schedule_is_told_with_an_example(line: str, said: str) -> None:
    with pytest.raises(UsageError) as told:
        split_job([line], "UTC", NOW)
    assert said in str(told.value) and "\n" not in str(told.value)
