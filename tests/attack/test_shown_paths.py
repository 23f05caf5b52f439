"""Questions, refusals and messages name a file of the session's own /tmp as commands and the person do."""

import pytest

from hermes.core.events import Refused
from hermes.i18n.messages import CHINESE, ENGLISH, N_, localize, set_language
from hermes.testing.script import Call
from hermes.tools.named_paths import rename_paths
from tests.attack.obedient_scene import NO, ONCE, Scene, says, scene


def rename(path: str) -> str:
    return "/tmp" + path.removeprefix("/x/hermes-1/tmp") if path.startswith("/x/hermes-1/tmp") else path


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("it keeps /x/hermes-1/tmp/a.sh, which acts later", "it keeps /tmp/a.sh, which acts later"),
        ("(`/x/hermes-1/tmp`; /y)", "(`/tmp`; /y)"),
        ("no copy is kept of /tmp/dot.${$}", "no copy is kept of /tmp/dot.$$"),
        ("it deletes /tmp/${:mktemp}", "it deletes /tmp/tmp.XXXXXXXXXX"),
        ("${HOME} and ${@}", "${HOME} and $@"),
        ("read or write", "read or write"),
    ],
)
def test_a_path_is_named_as_commands_name_it(text: str, shown: str) -> None:
    assert rename_paths(text, rename) == shown


def test_the_message_can_still_be_translated() -> None:
    message = rename_paths(N_("{named} is outside the workspace", named="/x/hermes-1/tmp/a"), rename)
    set_language(CHINESE)
    try:
        assert localize(message) != message and localize(message).startswith("/tmp/a")
    finally:
        set_language(ENGLISH)


async def read_what_is_untrusted(one: Scene) -> None:
    (one.home.cwd / "a").write_text("x")
    await one.call("read_file", path="a")


@pytest.mark.needs("bubblewrap")
async def test_no_folder_of_ours_is_shown_to_a_person_or_the_model() -> None:
    async with scene() as one:
        await read_what_is_untrusted(one)
        said = await one.call("write_file", says(NO), path="/tmp/s.sh", content="echo hi\n")
        await one.run("mkdir /tmp/w && cd /tmp/w")
        said += await one.run("git push --force origin main", says(NO))
        said += "\n" + await one.call("read_file", path="/tmp/no/such/file")
        first, second = one.asked
        assert "/tmp/s.sh, which acts later" in first.reason and second.cwd == "/tmp/w"
        assert "The nearest one that does is /tmp." in said
        refused = [event.reason for event in one.events if isinstance(event, Refused)]
        assert len(refused) == 2
        # The mark around untrusted content names the folder by which the session knows the source.
        said = "".join(line for line in said.splitlines() if not line.startswith("<untrusted "))
        told = [said, *refused, *(f"{asked.reason} {asked.cwd} {asked.subject}" for asked in one.asked)]
        assert not any("/hermes-" in text.replace(str(one.home.root.resolve()), "") for text in told), told


@pytest.mark.needs("bubblewrap")
async def test_the_answer_to_such_a_question_counts() -> None:
    async with scene() as one:
        await read_what_is_untrusted(one)
        (said,) = await one.turn([Call("write_file", {"path": "/tmp/s.sh", "content": "echo hi\n"})], person=says(ONCE))
        assert "Created /tmp/s.sh" in said and len(one.asked) == 1
