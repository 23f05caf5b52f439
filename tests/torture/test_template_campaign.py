"""A few of the conversations with servers that refuse orders of roles; `make templates` holds all of them."""

import pytest

from tests.torture.template_campaign import RuleCase, list_cases, run_case

CASES = {case.name: case for case in list_cases()}
HEALED = {
    "mistral": [],
    "reasoning, custom": ["replayed_reasoning"],
    "qwen": [],
    "devstral": ["merged_roles"],
    "gemma": ["no_system_role", "told_calls"],
    "neighbours, calls, tgi, custom": ["merged_roles", "single_calls", "bare_calls"],
}


@pytest.mark.parametrize("name", HEALED)
async def test_no_refusal_ends_a_turn(name: str) -> None:
    report = await run_case(CASES[name], turns=4)
    assert (report.problems, report.healed) == ([], HEALED[name])
    assert report.pairs > 30


async def test_a_record_that_keeps_the_order_is_refused_less() -> None:
    case = CASES["devstral"]
    kept = await run_case(RuleCase(case.name, case.rules, "llamacpp"), turns=1)
    assert (kept.problems, kept.refusals) == ([], 0)


def test_there_are_forty_rule_sets_and_the_named_ones() -> None:
    assert len(CASES) >= 40
    assert {"mistral", "devstral", "ministral", "gemma", "llama", "qwen", "deepseek"} <= set(CASES)
