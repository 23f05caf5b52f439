"""The verbs in Chinese: no English sentence of ours is left on the screen, and what programs read stays English."""

import json
import re
import sys
from collections.abc import Iterator

import pytest

from hermes.cli.command_tree import parser_for_verb
from hermes.cli.main import format_help_text
from hermes.cli.parser import CommandParser
from hermes.cli.verbs import VERBS
from hermes.i18n.messages import CHINESE, ENGLISH, set_language
from hermes.markup.cells import fold_line, measure_width
from hermes.testing.home import ProgramResult, TempHome
from tests.command_line import run_command_line

pytestmark = pytest.mark.slow

_ENGLISH = re.compile(r"(?:\b[a-z']{2,}\b ){2}[a-z']{2,}\b")
"""Three small words in a row: prose, and no name, command or option."""
_TYPED = re.compile(
    r"""示例：.*(\n.*)*|`[^`]*`|"[^"]*"|'[^']*'|hermes( [a-z-]+)+|\[[^\]\n]*\]|\{[^}\n]*\}|（[a-z_, -]+）""",
    re.MULTILINE,
)
"""What stays as it is typed."""


def _left(text: str) -> list[str]:
    return [found[0] for found in _ENGLISH.finditer(_TYPED.sub("", text))]


@pytest.fixture
def chinese() -> Iterator[None]:
    set_language(CHINESE)
    yield
    set_language(ENGLISH)


def _helps(parser: CommandParser) -> Iterator[str]:
    yield parser.format_help()
    for below in parser.list_subparsers().values():
        yield from _helps(below)


@pytest.mark.usefixtures("chinese")
@pytest.mark.parametrize("verb", VERBS)
def test_every_help_is_chinese(verb: str) -> None:
    for text in _helps(parser_for_verb(verb)):
        usage, _, told = text.partition("\n\n")
        assert usage.startswith("用法：hermes") and "选项：" in told and _left(told) == []


@pytest.mark.usefixtures("chinese")
def test_the_first_help_is_chinese() -> None:
    assert "聊天：" in format_help_text() and _left(format_help_text()) == []


def test_lines_of_help_are_measured_in_columns() -> None:
    lines = fold_line("把主目录放进一个文件：数据库、设置、密钥、技能和记忆；不含 caches and logs。", 24)
    assert "".join(lines).replace(" ", "").startswith("把主目录放进一个文件：数据库、设置")
    assert all(line[0] not in "，。；：、" for line in lines) and len(lines) > 3


def _run(home: TempHome, *words: str, language: str = "zh_CN.UTF-8") -> ProgramResult:
    return run_command_line(home, *words, LC_ALL=language)


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "sessions liste",
        "sessions show 20260101",
        "sessions delete 20260101",
        "config set model.x 3",
        "config set agent.max_turns many",
        "config check",
        "config list --all",
        "trust nowhere",
        "trust /",
        "restore nowhere.zip",
        "skills view no-such-skill",
        "memory approve 3",
        "auth remove openrouter 2",
        "auth add openrouter --env NOT/A/NAME",
        "approvals show approval_1",
        "profile use nobody",
        "worktree remove nothing",
        "usage --since yesterday",
        "insights --days 0",
        "doctor",
        "status --offline",
        "mcp test none",
        "tools enable nothing",
        "guard command rm -rf /",
        "guard url http://169.254.169.254/",
        "model --provider openrouter",
        "cron add never hello",
        "cron show nobody",
        "cron history",
        "people show nobody",
        "pairing revoke nothing",
        "audit",
        "gateway status",
        "gateway reload",
        "send --to nobody hello",
        "webhook test nothing",
    ],
)
def test_what_verbs_say_is_chinese(line: str) -> None:
    with TempHome() as home:
        done = _run(home, *line.split())
    said = (done.stdout + done.stderr).replace(str(home.root), "/tmp")
    assert said and _left(said) == []


@pytest.mark.parametrize(
    "line",
    [
        "-r nobody",
        "-z hello --provider openrouter -m some/model",
        "-z hello --provider nobody",
        "gateway run",
    ],
)
async def test_what_sessions_say_that_cannot_start_is_chinese(line: str) -> None:
    with TempHome() as home:
        done = await home.run("env", "LC_ALL=zh_CN.UTF-8", sys.executable, "-m", "hermes", *line.split())
    said = (done.stdout + done.stderr).replace(str(home.root), "/tmp")
    assert said and _left(said) == []


@pytest.mark.parametrize("settings", ["approvals: {mode: off}", "approvals: {mode: no-such-mode}"])
def test_what_is_wrong_with_the_settings_is_told_in_chinese(settings: str) -> None:
    with TempHome() as home:
        (home.hermes / "config.yaml").write_text(settings + "\n")
        done = _run(home, "doctor")
    (told,) = (line for line in done.stdout.splitlines() if "approvals" in line)
    assert told.startswith("问题：") and _left(told) == [] and done.code == 1


def test_a_setting_that_is_refused_is_told_in_chinese_and_its_key_stays() -> None:
    with TempHome() as home:
        for value in ("off", "no-such-mode"):
            done = _run(home, "config", "set", "approvals.mode", value)
            assert _left(done.stderr) == [] and "什么都没有改动" in done.stderr and done.code == 2
        english = _run(home, "config", "set", "approvals.mode", "off", language="C.UTF-8").stderr
    assert english.startswith("hermes: approvals.mode off needs the name")


def test_the_sandbox_table_is_chinese_and_its_columns_stand_below_each_other() -> None:
    with TempHome() as home:
        table = _run(home, "doctor", "--sandbox").stdout.rpartition("\n\n")[2].splitlines()
        listed = _run(home, "doctor", "--sandbox", "--json").stdout
    rows = [row.partition("/") for row in table]
    assert {row[0].strip() for row in rows} <= {"隐藏", "只读", "可写", "私有", "已清理"} and len(rows) > 3
    assert {measure_width(row[0]) for row in rows} == {9}
    places = json.loads(listed)["sandbox"]
    assert {place["access"] for place in places} <= {"hidden", "read", "write", "private", "cleaned"}


def test_what_programs_read_stays_english() -> None:
    with TempHome() as home:
        answer = json.loads(_run(home, "doctor", "--json").stdout)
    assert all(text.isascii() for text in answer["lines"])
    assert all(check["said"].isascii() for check in answer["checks"])


def test_the_setting_chooses_and_the_environment_goes_first() -> None:
    with TempHome() as home:
        settings = home.hermes / "config.yaml"
        settings.write_text("model: x\ndisplay:\n  # how it looks\n  skin: default\n  language: en\n")
        assert "no command" in _run(home, "nonsense").stderr
        assert "没有命令" in run_command_line(home, "nonsense", HERMES_LANGUAGE="zh").stderr
        settings.write_text("display: {}\n")
        assert "没有命令" in _run(home, "nonsense").stderr
