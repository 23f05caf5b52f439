"""A person's own rules: their examples are checked, and the strictest of all that is said counts."""

import pytest

from hermes.core.errors import ConfigError
from hermes.safety.globs import covers_subject
from hermes.safety.policy import PolicyRule, check_rules, find_policy_findings
from hermes.safety.shell.findings import Verdict
from tests.attack.obedient_scene import ONCE, SESSION, says, scene


def test_a_rule_whose_examples_do_not_hold_is_refused() -> None:
    good = PolicyRule(pattern="git push *", verdict=Verdict.ASK, match=("git push origin",), no_match=("git pull",))
    assert check_rules([good], "x") == (good,)
    for rule in (
        PolicyRule(pattern="git push", verdict=Verdict.ASK, match=("git push origin",)),
        PolicyRule(pattern="git *", verdict=Verdict.ASK, no_match=("git status",)),
        PolicyRule(pattern=" ", verdict=Verdict.DENY),
    ):
        with pytest.raises(ConfigError, match=r"x, rule 1"):
            check_rules([rule], "x")


def test_the_strict_rules_speak_and_the_others_do_not() -> None:
    rules = [PolicyRule(pattern="cat *", verdict=Verdict.DENY), PolicyRule(pattern="ls *", verdict=Verdict.ALLOW)]
    assert [one.verdict for one in find_policy_findings(rules, ["cat x", "ls x"])] == [Verdict.DENY]


def test_words_with_spaces_are_told_from_several_words() -> None:
    assert covers_subject("rm -r 'a b'", "rm -r 'a b'") and covers_subject("rm -r *", "rm -r 'a b'")
    assert not covers_subject("rm -r a b", "rm -r 'a b'") and not covers_subject("rm -r 'a b'", "rm -r a b")
    # A rule that is stricter than Hermes is about both: who wrote it thought of the words.
    for pattern in ("psql -c drop *", "psql -c 'drop table *'"):
        assert find_policy_findings([PolicyRule(pattern=pattern, verdict=Verdict.DENY)], ["psql -c 'drop table x'"])


async def test_an_answer_for_one_file_is_not_one_for_two() -> None:
    async with scene("local", trusted=True) as one:
        for name in ("a b", "a", "b"):
            (one.home.cwd / name).mkdir()
        assert "exit code 0" in await one.run("rm -r 'a b'", says(SESSION))
        assert one.asked[0].session_covers.startswith("`rm -r 'a b'`")
        assert "Not allowed" in await one.run("rm -r a b")
        (one.home.cwd / "a b").mkdir()
        assert "exit code 0" in await one.run('rm -r "a b"')


RULES = [
    {"pattern": "cat *", "verdict": "deny", "reason": "no cats", "match": ["cat x"]},
    {"pattern": "rm -r old", "verdict": "allow"},
    {"pattern": "echo *", "verdict": "ask"},
    {"pattern": "write_file */x.txt", "verdict": "deny"},
]


async def test_rules_hold_for_every_command_of_a_line_and_for_tools() -> None:
    async with scene("local", trusted=True, config={"approvals": {"rules": RULES}}) as one:
        (one.home.cwd / "old").mkdir()
        assert "exit code 0" in await one.run("rm -r old")
        for hidden in ("cat /dev/null", "ls; cat x", "sh -c 'cat x'", "true && $(cat x)", "xargs cat x < /dev/null"):
            assert "no cats" in await one.run(hidden, says(ONCE))
        assert not one.asked
        assert "Not allowed" in await one.run("echo hi")
        assert "hi" in await one.run("echo hi", says(ONCE))
        assert "Not allowed" in await one.call("write_file", path="sub/x.txt", content="x")
        assert "Created" in await one.call("write_file", path="y.txt", content="x")


@pytest.mark.parametrize(
    ("approvals", "said"),
    [
        ({"mode": "maybe"}, "mode 'maybe'"),
        ({"mode": "off"}, "off_in"),
        ({"rules": [{"pattern": "x", "verdict": "sometimes"}]}, "verdict 'sometimes'"),
        ({"rules": [{"pattern": "x", "verdict": "deny", "match": ["y"]}]}, "rule 1"),
        ({"rules": [{"patern": "x"}]}, "patern"),
    ],
)
async def test_a_policy_that_cannot_be_meant_stops_everything(approvals: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        async with scene("local", config={"approvals": approvals}):
            pass


async def test_off_counts_in_the_named_sandbox_only() -> None:
    off = {"approvals": {"mode": "off", "off_in": "sandbox"}}
    for backend, allowed in (("sandbox", True), ("local", False)):
        async with scene(backend, trusted=True, config=off) as one:
            (one.home.cwd / "old").mkdir()
            await one.run("rm -r old")
            assert (one.home.cwd / "old").exists() is not allowed
