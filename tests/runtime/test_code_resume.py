"""A turn whose process died while code of it made calls, as it is resumed."""

import json

from hermes.agent import prompts
from hermes.core.messages import ToolResultPart
from hermes.core.protocols import Intent
from hermes.testing.script import Say
from tests.runtime.test_resume import ASKED, Left, calling, resumed

CODE = json.dumps({"code": 'print(read_file(path="a").split("|")[-1].strip())'})
DONE = ToolResultPart(call_id="c.1", name="terminal", text="done")


async def test_code_that_has_made_no_call_runs_again() -> None:
    left = Left([ASKED, calling(("c", "execute_code", CODE))], [Intent("c", "execute_code", CODE, True)])
    outcome = await resumed(left, [Say("an apple")])
    assert outcome.text == "an apple"
    assert "apple" in outcome.server.requests[-1].conversation[-1].text


async def test_what_the_model_is_told_of_stopped_code_is_that_its_outcome_is_unknown() -> None:
    intents = [Intent("c", "execute_code", CODE, True), Intent("c.1", "terminal", "{}", False)]
    left = Left([ASKED, calling(("c", "execute_code", CODE))], intents, [DONE], stopping=True)
    outcome = await resumed(left, [Say("well")], more="And now?")
    told = outcome.server.requests[-1].body.decode()
    assert prompts.CRASHED_CALL[:60] in told


async def test_a_call_of_the_model_s_own_whose_id_looks_like_one_of_code_s_keeps_its_result() -> None:
    """As older versions have stored it: nothing is run twice for it."""
    calls = calling(("c", "read_file", '{"path": "a"}'), ("c.1", "terminal", '{"command": "echo again >> b"}'))
    intents = [Intent("c", "read_file", "{}", True), Intent("c.1", "terminal", "{}", False)]
    outcome = await resumed(Left([ASKED, calls], intents, [DONE]), [Say("well")])
    assert outcome.text == "well"
    assert "done" in outcome.server.requests[-1].body.decode()
