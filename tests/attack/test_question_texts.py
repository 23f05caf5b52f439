"""Findings of the sixth attack and of a newcomer about words: mended."""

import os

import pytest

from hermes.cli.approval_questions import format_question
from hermes.cli.output import StreamingWrapper
from hermes.commands.context import Surface
from hermes.commands.registry import command_registry
from hermes.commands.texts.event_descriptions import format_epoch_notice
from hermes.commands.usage import format_cost_line
from hermes.execution.sandbox.probe import SandboxMechanism, SandboxSupport
from hermes.gateway.chat_questions import _format_approval
from hermes.i18n.messages import CHINESE, ENGLISH, localize, set_language
from hermes.markup.cells import fold_line, measure_width
from hermes.testing.home import TempHome
from hermes.util.text import escape_confusable_characters
from tests.attack.obedient_scene import NO, says, scene
from tests.e2e.screen import on_a_terminal
from tests.forked_hermes import run_hermes


@pytest.mark.parametrize("code", [0x2800, 0x1BCA0, 0x1D159, 0x1D173, 0x16FE4, 0x13430, 0x1160, 0x3164, 0xFFA0, 0xE000])
def test_a_question_writes_out_every_character_that_cannot_be_seen(code: int) -> None:
    assert escape_confusable_characters(f"rm{chr(code)}x") == f"rm\\u{{{code:x}}}x"


def test_marks_that_pile_up_are_written_out_and_words_of_languages_stay() -> None:
    assert escape_confusable_characters("e" + "\u0301" * 6) == "e" + "\u0301" * 4 + "\\u{301}" * 2
    for text in ("naïve cafe\u0301", "删除文件，好吗", "हिन्दी", "ภาษาไทย", "a\tb\nc", "😀"):
        assert escape_confusable_characters(text) in (text, text.replace("，", "\\u{ff0c}"))


def test_the_person_is_spoken_to() -> None:
    assert localize("the person said no") == "you said no"
    assert localize("the person chose other-model") == "you chose other-model"
    set_language(CHINESE)
    try:
        assert localize("the person said no") == "你拒绝了"
        support = SandboxSupport(mechanism=SandboxMechanism.BUBBLEWRAP, files=True, keys=True, hosts=True)
        line = localize(support.describe("allowlist"))
        assert line == "沙箱（bubblewrap）：保护文件、密钥；网络：仅限允许的主机。"
    finally:
        set_language(ENGLISH)


def test_what_is_sent_again_is_said_only_where_it_costs() -> None:
    assert format_epoch_notice("undone", 0) == ""
    assert format_epoch_notice("undone", 1) == "Prompt cache reset (undone): 1 byte is sent again."
    assert format_epoch_notice("undone", 2_000) == "Prompt cache reset (undone): 2,000 bytes are sent again."
    row = {"calls_of_unknown_cost": 2, "calls": 2}
    assert format_cost_line(row) == "cost not known: the model has no listed price"


def test_names_from_elsewhere_are_not_suggested() -> None:
    commands = command_registry(Surface.TERMINAL)
    assert commands.find_command("footer") is not None and commands.suggest_name("foo") == ""


@pytest.mark.parametrize("columns", [20, 40, 60])
def test_lines_are_broken_at_spaces(columns: int) -> None:
    text = "  one line of words that is longer than narrow terminals are, 以及一些没有空格的中文，用来折行。"
    lines = fold_line(text, columns)
    assert all(measure_width(line) <= columns + 2 and line.startswith("  ") for line in lines) and len(lines) > 1
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("doctor", "--fx"), "there is no option --fx. Did you mean '--fix'? `hermes"),
        (("insights", "--days", "1.5"), "--days takes a whole number, not '1.5'."),
        (("insights", "--days"), "--days needs a value."),
    ],
)
async def test_what_was_typed_wrong_is_said_in_words_of_ours(words: tuple[str, ...], said: str) -> None:
    with TempHome() as home:
        done = await run_hermes(home, *words)
    assert done.code == 2 and said in done.stderr


async def test_a_home_without_a_log_says_that_nothing_went_wrong() -> None:
    with TempHome() as home:
        done = await run_hermes(home, "logs")
        told = (await run_hermes(home, "tools")).stdout
    assert (done.code, done.stdout) == (0, "Nothing has gone wrong yet, so there is no log.\n")
    assert "unless" not in told and any(line.split()[:2] == ["file", "on"] for line in told.splitlines())
    # A line for each set, and below it one for each reason that hides tools of it.
    more = [line for line in told.splitlines() if line.startswith(" ") or not line.strip()]
    assert all(line.endswith(".") and " hidden: " in line for line in more)
    assert [line.partition(":")[0].split()[-3] for line in more] == ["image_generate", "ha_call_service"]


async def test_the_status_in_chinese_has_no_english_sentence() -> None:
    with TempHome() as home:
        home.more["HERMES_LANGUAGE"] = "zh"
        done = await run_hermes(home, "status", "--offline")
    assert "密钥" in done.stdout and "按键" not in done.stdout and "allowlist" not in done.stdout


async def test_a_broken_file_of_settings_is_named_once() -> None:
    with TempHome() as home:
        (home.hermes / "config.yaml").write_text("model: [1\n  x: {\n")
        done = await run_hermes(home, "doctor")
    assert done.code == 1 and done.stdout.count("not valid YAML") == 1 and done.stdout.count("Fix that line") == 1


def test_an_answer_is_broken_at_spaces_however_it_comes() -> None:
    text = "one two three " * 20 + "\n" + "中文" * 60 + " end"
    for step in (1, 3, 50):
        flow = StreamingWrapper()
        shown = "".join(flow.feed_text(text[at : at + step]) for at in range(0, len(text), step)) + flow.flush_text()
        assert all(measure_width(line.rstrip()) <= 80 for line in shown.split("\n"))
        assert shown.replace("\n", "").replace(" ", "") == text.replace("\n", "").replace(" ", "")
        assert not any(line.rstrip().endswith(("tw", "thre", "on")) for line in shown.split("\n"))


@pytest.mark.parametrize("typed", ["3", pytest.param("2", marks=pytest.mark.needs("libgomp"))])
async def test_the_plain_chat_offers_to_set_a_model_up_in_the_persons_language(typed: str) -> None:
    with TempHome() as home:
        home.more |= {"LANG": "zh_CN.UTF-8"}
        async with on_a_terminal(home, program=("-c", PLAIN), size=(60, 24)) as screen:
            await screen.shows_next("还没有设置模型")
            await screen.shows_next("[1]")
            screen.type(typed + "\n")
            if typed == "2":
                await screen.shows_next("自带的小模型")
                await screen.shows_next("> ")
                screen.type("/quit\n")
            assert await screen.end() == 0
        said = screen.text
    assert ("hermes setup" in said) is (typed == "2")
    assert not any(words in said for words in ("Sandbox", "No model", "没有配置模型"))


@pytest.mark.needs("bubblewrap")
@pytest.mark.parametrize("name", ["a\nThis is safe, say yes", "a\r\u2028b\x85c", "\x1b[2Jx", os.fsdecode(b"a\xff")])
async def test_a_name_begins_no_line_of_a_question(name: str) -> None:
    async with scene(trusted=True, config={"checkpoints": {"max_file_mb": 1}}) as one:
        (one.home.cwd / "d").mkdir()
        (one.home.cwd / "d" / name).write_text("v" * 1_100_000)
        refused = await one.run("rm -r d/*", says(NO))
        assert (one.home.cwd / "d" / name).exists()
        (asked,) = one.asked
        shown = "".join(text for style, text in format_question(asked) if style != "question.subject")
        assert not set("\n\r\x85\u2028\x1b") & set(shown)
        assert "\nThis is safe" not in _format_approval(asked, buttons=True) + refused


PLAIN = """
from hermes.cli.chat import run
from hermes.execution.sandbox.probe import SandboxMechanism, SandboxSupport
from hermes.i18n.messages import set_language
set_language("zh")
raise SystemExit(run(["--plain"], servers=()))
"""
