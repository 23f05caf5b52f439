"""What is said comes out in the person's language, numbers and times with it."""

import asyncio
import json
import re
import time
from pathlib import Path

import pytest

from hermes.i18n.formats import format_compact, format_duration, format_number, format_time
from hermes.i18n.messages import (
    CHINESE,
    ENGLISH,
    N_,
    full_stop,
    get_language,
    join_sentences,
    language_from_environment,
    localize,
    localize_inside,
    set_language,
    tr,
    tr_plural,
)
from hermes.safety.shell.commands import analyze_command
from hermes.util.localizable import Localizable, join_localizable
from tests.safety.corpus_score import PLACES

CORPORA = Path(__file__).resolve().parents[1] / "safety" / "corpus"
ENGLISH_WORDS = re.compile(r"\b(it|its|that|which|the|is|of|from|would|nobody|can|and|to)\b")


@pytest.fixture(autouse=True)
def _english_again() -> object:
    yield
    set_language(ENGLISH)


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
    assert language_from_environment(environ) == language


def test_places_are_filled_and_braces_stay_where_nothing_is_given() -> None:
    assert tr("{name} is {age}", name="{x}", age=3) == "{x} is 3"
    assert tr("a {brace}") == "a {brace}"
    assert N_("later") == "later"


def test_one_and_many() -> None:
    assert tr_plural("{n} file", "{n} files", 1) == "1 file"
    assert tr_plural("{n} file", "{n} files", 1200) == "1,200 files"


def test_an_unknown_language_is_english_and_an_unknown_text_stays() -> None:
    set_language("xx")
    assert get_language() == ENGLISH
    set_language(CHINESE)
    assert tr("this text is in no catalogue: {n}", n=1) == "this text is in no catalogue: 1"


async def test_a_task_speaks_for_itself_only() -> None:
    async def in_chinese() -> str:
        set_language(CHINESE)
        return get_language()

    assert await asyncio.create_task(in_chinese()) == CHINESE
    assert get_language() == ENGLISH


def test_numbers_and_times() -> None:
    assert (format_number(1234567), format_compact(950), format_compact(12_345), format_compact(4_500_000)) == (
        "1,234,567",
        "950",
        "12.3k",
        "4.5M",
    )
    assert (
        format_duration(0.44),
        format_duration(12.9),
        format_duration(185),
        format_duration(7_800),
        format_duration(3 * 86_400),
    ) == (
        "0.4 s",
        "12 s",
        "3 min 5 s",
        "2 h 10 min",
        "3 d",
    )
    noon = time.mktime((2026, 3, 5, 12, 30, 0, 0, 0, -1))
    assert format_time(noon, now=noon + 60) == "12:30"
    assert format_time(noon, now=noon + 86_400 * 40) == "Mar 5, 12:30"
    assert format_time(noon, now=noon + 86_400 * 400) == "Mar 5, 2026, 12:30"
    set_language(CHINESE)
    assert (format_compact(950), format_compact(12_345), format_compact(450_000_000)) == ("950", "1.2万", "4.5亿")
    assert (format_duration(185), format_time(noon, now=noon + 86_400 * 40)) == ("3 分 5 秒", "3月5日 12:30")


def test_a_finished_text_stays_as_it_is_in_english() -> None:
    assert localize(N_("There is no session {session_id}.", session_id="x")) == "There is no session x."
    assert join_sentences("One.", "", "Two.") == "One. Two." and full_stop() == "."


def test_a_text_made_in_english_is_shown_in_chinese() -> None:
    set_language(CHINESE)
    gone = N_("There is no session {session_id}.", session_id="{x}\\1")
    assert localize(gone) == "没有会话 {x}\\1。"
    both = join_localizable(" ", (gone, "`hermes sessions list` shows them."))
    assert localize(both) == "没有会话 {x}\\1。`hermes sessions list` 会列出会话。"
    assert (
        join_sentences(localize("The title is empty."), localize("Name another file.")) == "标题为空。请换一个文件名。"
    )


@pytest.mark.parametrize("text", ["", "Something that a server says. It is none of ours.", "{0} {} %s \\1"])
def test_words_of_others_stay(text: str) -> None:
    set_language(CHINESE)
    assert localize(text) == text


def test_the_name_in_a_place_is_not_translated() -> None:
    set_language(CHINESE)
    assert localize(N_("There is no session {session_id}.", session_id="memory")) == "没有会话 memory。"


def test_the_reasons_of_a_question_are_chinese_whole() -> None:
    set_language(CHINESE)
    seen = 0
    for corpus in CORPORA.glob("*.jsonl"):
        for line in corpus.read_text().splitlines():
            findings = analyze_command(json.loads(line)["cmd"], PLACES.workspace, PLACES).findings
            shown = localize(join_localizable("; ", dict.fromkeys(one.reason for one in findings)))
            assert not ENGLISH_WORDS.search(re.sub("`[^`]*`", "", shown)), line
            seen += len(findings) > 1
    assert seen > 300


def test_a_wording_of_another_process_that_does_not_fit_is_shown_in_english() -> None:
    set_language(CHINESE)
    assert localize(Localizable("gone", "There is no session {session_id}.", {})) == "gone"
    assert localize(Localizable("gone", "{path.__class__}", {"path": "x"})) == "gone"


def test_words_of_a_command_are_shown_as_they_are() -> None:
    set_language(CHINESE)
    reason = N_("{reason} (`{words}`)", reason=N_("it deletes {path}", path="/"), words="allowed hosts only")
    assert localize(reason) == "它会删除 / (`allowed hosts only`)"


def test_a_title_in_the_middle_of_a_sentence_has_a_small_article() -> None:
    here = N_("The server at {format_host}", format_host="127.0.0.1:8000")
    assert localize_inside(here) == "the server at 127.0.0.1:8000"
    assert localize_inside("Theta Labs") == "Theta Labs" and localize_inside("OpenRouter") == "OpenRouter"
    set_language(CHINESE)
    assert localize_inside(here) == "服务器 127.0.0.1:8000"
