"""Words and options of other agents: each is answered with what it is called here, or with what there is instead."""

from collections import Counter

import pytest

from hermes.cli.command_tree import describe_ours, list_commands
from hermes.cli.foreign_words import ANSWERS, SAME_HERE
from hermes.plugins import suggest_name
from hermes.testing.home import TempHome
from tests.case_tables import each_case
from tests.command_line import run_command_line
from tests.forked_hermes import run_hermes

WORDS = [word for theirs in (*SAME_HERE.values(), *ANSWERS.values()) for word in theirs.replace("/", " ").split(",")]
OPTIONS = [word for word in WORDS if word.startswith("-") and " " not in word]
VALUES = [word for word in WORDS if word.startswith("-") and " " in word]
BELOW = [word for word in WORDS if not word.startswith("-") and " " in word]
COMMANDS = [word for word in WORDS if not word.startswith("-") and " " not in word]


def find_ours(word: str) -> list[str]:
    return [ours for ours, theirs in SAME_HERE.items() if word.replace(" ", "/") in theirs.split(",")]


@each_case("ours", SAME_HERE)
def test_what_is_named_is_there(ours: str) -> None:
    assert describe_ours(ours), ours


def test_no_word_of_ours_is_explained_and_none_twice() -> None:
    paths = {" ".join(one.path) for one in list_commands()}
    chat = next(one for one in list_commands() if one.path == ("chat",))
    assert not {*WORDS} & paths and not {*WORDS} & {*chat.options}
    assert {word for word, count in Counter(WORDS).items() if count > 1} == {"-s"}  # two agents, two meanings


@each_case("option", OPTIONS)
def test_an_option_is_one_line_that_names_ours(option: str) -> None:
    with TempHome({}) as home:
        done = run_command_line(home, "-z", "hi", option)
    usage, said = done.stderr.splitlines()
    assert (done.code, done.stdout) == (2, "") and usage.startswith("usage: hermes")
    assert said.startswith(f"hermes: there is no option {option}. ")
    assert all(f"Here that is `{ours}`" in said for ours in find_ours(option))
    assert "Did you mean" not in said and len(said) < 470


@pytest.mark.parametrize("words", VALUES)
def test_a_value_of_an_option_is_one_line_that_names_ours(words: str) -> None:
    with TempHome({}) as home:
        done = run_command_line(home, "-z", "hi", *words.split())
    _, said = done.stderr.splitlines()
    assert done.code == 2 and f"{words.split()[1]!r} is not possible here. " in said
    assert all(f"Here that is `{ours}`" in said for ours in find_ours(words))


@each_case("word", COMMANDS)
def test_a_command_is_one_line_that_names_ours(word: str) -> None:
    with TempHome({}) as home:
        done = run_command_line(home, word, "--json", "something")
    (said,) = done.stderr.splitlines()
    assert (done.code, done.stdout) == (2, "") and said.startswith(f"hermes: there is no command {word!r}. ")
    assert all(f"Here that is `{ours}`: " in said for ours in find_ours(word))
    assert "Did you mean" not in said and said.endswith("`hermes --help` lists the commands.")


@each_case("words", BELOW)
def test_a_word_below_a_command_is_one_line_that_names_ours(words: str) -> None:
    with TempHome({}) as home:
        needed = ["x", "x"] if "--scope" in words or " -s" in words else []
        path = words.split()
        done = run_command_line(home, *path[:2], *needed, *path[2:])
    *_, said = done.stderr.splitlines()
    assert (done.code, done.stdout) == (2, ""), done
    assert all(f"Here that is `{ours}`" in said for ours in find_ours(words)), said
    assert "Did you mean" not in said


async def test_a_real_process_answers_so() -> None:
    with TempHome({}) as home:
        done = await run_hermes(home, "-z", "hi", "--output-last-message", "answer.txt")
        assert done.code == 2 and "Here that is `-o FILE`: write the final answer to a file, too." in done.stderr
        done = await run_hermes(home, "exec", "--full-auto", "Fix the tests.")
        assert (done.code, done.stdout) == (2, "")
        assert done.stderr.startswith("hermes: there is no command 'exec'. Here that is `hermes -z TEXT`: one task;")
        done = await run_hermes(home, "login")
        assert done.code == 2 and "Here that is `hermes auth login`: " in done.stderr


def test_a_suggestion_is_a_slip_away_and_no_other_word() -> None:
    assert suggest_name("setup", ["stop"]) == suggest_name("login", ["logs"]) == suggest_name("mv", ["rm"]) == ""
    assert "'stop'" in suggest_name("sotp", ["stop", "step"]) and "'sessions'" in suggest_name("sesion", ["sessions"])


async def test_what_sounds_like_a_verb_that_ends_something_is_not_led_there() -> None:
    with TempHome({}) as home:
        done = await run_hermes(home, "gateway", "setup")
        assert "Here that is `hermes setup`." in done.stderr and "Did you mean" not in done.stderr
        for words in ("gateway soup", "gateway sto", "sessions dlt", "cron rnv"):
            done = await run_hermes(home, *words.split())
            assert done.code == 2 and ("Did you mean 'stop'" in done.stderr) == words.endswith("sto"), done


async def test_help_never_runs_what_it_names() -> None:
    with TempHome({}) as home:
        before = (home.hermes / "config.yaml").read_bytes()
        for asked in ("help", "-h", "--help"):
            for words in ("mcp add evil -- sh -c task", "config set agent.max_turns --", "cron add 1h -- task"):
                done = await run_hermes(home, asked, *words.split())
                assert (done.code, done.stdout[:13]) == (0, "usage: hermes"), (asked, words)
        assert (home.hermes / "config.yaml").read_bytes() == before


async def test_help_is_that_of_the_command_wherever_the_word_stands() -> None:
    with TempHome({}) as home:
        shown = (await run_hermes(home, "sessions", "--help")).stdout
        assert shown.startswith("usage: hermes sessions")
        for words in ("help sessions", "sessions help", "--help sessions"):
            assert (await run_hermes(home, *words.split())).stdout == shown
        done = await run_hermes(home, "backup", "help")
        assert done.stdout.startswith("usage: hermes backup") and not (home.cwd / "help").exists()
        done = await run_hermes(home, "restart")
        assert "Did you mean 'gateway restart'?" in done.stderr


async def test_a_word_for_the_same_action_does_it() -> None:
    with TempHome({}) as home:
        added = await run_hermes(home, "mcp", "create", "notes", "--no-test", "--", "cat")
        assert (added.code, added.stdout.splitlines()[0].split()[:2]) == (0, ["Added", "notes"])
        assert (await run_hermes(home, "mcp", "show", "notes", "--no-connect")).stdout.startswith("notes")
        assert (await run_hermes(home, "mcp", "ls", "--no-connect")).stdout.startswith("notes")
        assert (await run_hermes(home, "mcp", "rm", "notes")).stdout.startswith("Removed notes.")
