"""What is said comes out in the person's language, numbers and times with it."""

import asyncio
import time

import pytest

from hermes.i18n.formats import compact, moment, number, span
from hermes.i18n.messages import CHINESE, ENGLISH, language_of, phrase, say, say_many, speak, spoken


@pytest.fixture(autouse=True)
def _english_again() -> object:
    yield
    speak(ENGLISH)


@pytest.mark.parametrize(
    ("environ", "language"),
    [
        ({}, ENGLISH),
        ({"LANG": "zh_CN.UTF-8"}, CHINESE),
        ({"LANG": "zh"}, CHINESE),
        ({"LANG": "zha"}, ENGLISH),
        ({"LC_ALL": "C", "LANG": "zh_CN.UTF-8"}, ENGLISH),
        ({"HERMES_LANGUAGE": "zh", "LC_ALL": "en_US.UTF-8"}, CHINESE),
        ({"LC_ALL": "", "LC_MESSAGES": "zh-Hans", "LANG": "de_DE"}, CHINESE),
    ],
)
def test_the_environment_chooses(environ: dict[str, str], language: str) -> None:
    assert language_of(environ) == language


def test_places_are_filled_and_braces_stay_where_nothing_is_given() -> None:
    assert say("{name} is {age}", name="{x}", age=3) == "{x} is 3"
    assert say("a {brace}") == "a {brace}"
    assert phrase("later") == "later"


def test_one_and_many() -> None:
    assert say_many("{n} file", "{n} files", 1) == "1 file"
    assert say_many("{n} file", "{n} files", 1200) == "1,200 files"


def test_an_unknown_language_is_english_and_an_unknown_text_stays() -> None:
    speak("xx")
    assert spoken() == ENGLISH
    speak(CHINESE)
    assert say("this text is in no catalogue: {n}", n=1) == "this text is in no catalogue: 1"


async def test_a_task_speaks_for_itself_only() -> None:
    async def in_chinese() -> str:
        speak(CHINESE)
        return spoken()

    assert await asyncio.create_task(in_chinese()) == CHINESE
    assert spoken() == ENGLISH


def test_numbers_and_times() -> None:
    assert (number(1234567), compact(950), compact(12_345), compact(4_500_000)) == ("1,234,567", "950", "12.3k", "4.5M")
    assert (span(0.44), span(12.9), span(185), span(7_800), span(3 * 86_400)) == (
        "0.4 s",
        "12 s",
        "3 min 5 s",
        "2 h 10 min",
        "3 d",
    )
    noon = time.mktime((2026, 3, 5, 12, 30, 0, 0, 0, -1))
    assert moment(noon, now=noon + 60) == "12:30"
    assert moment(noon, now=noon + 86_400 * 40) == "Mar 5, 12:30"
    assert moment(noon, now=noon + 86_400 * 400) == "Mar 5, 2026, 12:30"
    speak(CHINESE)
    assert (compact(950), compact(12_345), compact(450_000_000)) == ("950", "1.2万", "4.5亿")
    assert (span(185), moment(noon, now=noon + 86_400 * 40)) == ("3 分 5 秒", "3月5日 12:30")
