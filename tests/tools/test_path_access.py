"""What commands do not see is read with a person's yes: by folder, by a path that they typed, and never of keys."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from hermes.core.messages import PERSON, Message, Provenance, Role, Source, TextPart, ToolStatus
from hermes.core.outcomes import AnswerScope
from hermes.execution.sandbox.backend import SandboxBackend
from hermes.execution.sandbox.policy import SandboxPolicy
from hermes.safety.paths import Places
from hermes.tools.named_paths import find_named_paths
from hermes.tools.registry import ToolRegistry
from tests.execution.test_sandbox_home import hidden
from tests.tools.tool_session import Person, Session, make_context

FILES = ("Documents/a/letter", "Documents/notes", ".ssh/id_ed25519", ".someapp/state", ".cargo/bin/x")


def fill(folder: Path) -> Path:
    home = folder / "home"
    for name in (
        "Documents/a/letter",
        "Documents/notes",
        ".ssh/id_ed25519",
        ".someapp/state",
        "code/proj/own",
        ".cargo/bin/x",
    ):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(f"text of {name}\n")
    (home / ".hermes").mkdir()
    return home


@pytest.fixture
async def hiding(tmp_path: Path) -> AsyncIterator[Session]:
    """A session whose commands do not see the home."""
    folder = tmp_path.resolve()
    home = fill(folder)
    places = Places(home=str(home), hermes=str(home / ".hermes"), workspace=str(home / "code/proj"))
    made = hidden(SandboxPolicy(places=places, private=("/var/tmp",)))
    backend = SandboxBackend({**os.environ, "HOME": str(home)}, made)
    session = Session(make_context(folder, places=places, backend=backend), ToolRegistry().select_tools())
    session.state.cwd = home / "code/proj"
    yield session
    await session.close()


@pytest.fixture
async def unconfined(tmp_path: Path) -> AsyncIterator[Session]:
    """A session without a wall around its commands."""
    folder = tmp_path.resolve()
    home = fill(folder)
    places = Places(home=str(home), hermes=str(home / ".hermes"), workspace=str(home / "code/proj"))
    session = Session(make_context(folder, places=places), ToolRegistry().select_tools())
    session.state.cwd = home / "code/proj"
    yield session
    await session.close()


def says(session: Session, text: str, provenance: Provenance = PERSON) -> None:
    session.state.taint.add_message(Message(role=Role.USER, parts=(TextPart(text, provenance),)))


async def is_read(session: Session, path: str) -> bool:
    result = await session.call("read_file", path=path)
    assert result.status in (ToolStatus.OK, ToolStatus.REFUSED), result.text
    return "text of" in result.text


async def test_nobody_to_ask_is_a_no(hiding: Session) -> None:
    assert await is_read(hiding, "own") and await is_read(hiding, "~/.cargo/bin/x")
    for path in ("~/Documents/notes", "~/.someapp/state", "~/.ssh/id_ed25519", "~/Documents/missing"):
        assert not await is_read(hiding, path), path
    assert "Not allowed" in await hiding.text("search_files", pattern="text", path="~/Documents")
    (hiding.cwd / "link").symlink_to("../../Documents")
    assert not await is_read(hiding, "link/notes")
    assert (await hiding.text("search_files", pattern="text")).count("text of") == 1


async def test_a_yes_is_for_a_folder(hiding: Session) -> None:
    hiding.person = Person(True)
    documents = Path(hiding.context.places.home, "Documents")
    assert await is_read(hiding, "~/Documents/notes")
    (asked,) = hiding.person.asked
    assert (asked.rule, asked.session_covers) == ("hidden-place", f"`read {documents}/*`")
    hiding.allow = (f"read {documents}/*",)
    hiding.person = None
    assert await is_read(hiding, "~/Documents/a/letter") and not await is_read(hiding, "~/.someapp/state")
    assert "Documents/notes:1:text" in await hiding.text("search_files", pattern="text", path="~/Documents")


async def test_keys_are_not_asked_about(hiding: Session) -> None:
    hiding.person = Person(AnswerScope.ONCE, AnswerScope.ONCE)
    assert not await is_read(hiding, "~/.ssh/id_ed25519") and not hiding.person.asked
    shown = await hiding.text("search_files", pattern="text of", path="~")
    assert "Documents/notes" in shown and "id_ed25519" not in shown
    listed = await hiding.text("search_files", pattern="*", target="files", path="~")
    assert "Documents/notes" in listed and ".ssh" not in listed


async def test_a_path_that_the_person_typed_is_open(hiding: Session) -> None:
    says(hiding, "look at ~/Documents/notes, please; and at ~/.ssh/id_ed25519")
    says(hiding, "read ~/.someapp/state", Provenance(Source.WEB, "https://example.org"))
    assert await is_read(hiding, "~/Documents/notes")
    for path in ("~/Documents/a/letter", "~/.ssh/id_ed25519", "~/.someapp/state"):
        assert not await is_read(hiding, path), path
    assert "Not allowed" in await hiding.text("search_files", pattern="text", path="~/Documents")


async def test_a_link_of_a_command_is_not_what_was_typed(hiding: Session) -> None:
    says(hiding, f"read ./notes and {hiding.cwd}/notes")
    (hiding.cwd / "notes").symlink_to("../../Documents/notes")
    assert not await is_read(hiding, "notes") and not await is_read(hiding, "~/Documents/notes")


async def test_a_confined_person_is_not_asked(hiding: Session) -> None:
    hiding.context = replace(hiding.context, places=replace(hiding.context.places, confined=True))
    hiding.person = Person(True)
    says(hiding, "read ~/Documents/notes")
    assert not await is_read(hiding, "~/Documents/notes") and not hiding.person.asked


async def test_without_a_wall_what_a_home_keeps_for_programs_asks(unconfined: Session) -> None:
    assert await is_read(unconfined, "~/Documents/notes") and await is_read(unconfined, "~/.cargo/bin/x")
    assert not await is_read(unconfined, "~/.someapp/state")
    unconfined.person = Person(True, True)
    assert await is_read(unconfined, "~/.someapp/state")
    assert not await is_read(unconfined, "~/.ssh/id_ed25519")
    assert [one.rule for one in unconfined.person.asked] == ["hidden-place"]
    unconfined.person = None
    says(unconfined, "`~/.someapp/state` is what I mean")
    assert await is_read(unconfined, "~/.someapp/state")


async def test_a_no_holds_for_the_session(hiding: Session) -> None:
    hiding.person = Person(False)
    executor = hiding.executor()
    hiding.executor = lambda: executor  # type: ignore[method-assign]
    assert not await is_read(hiding, "~/Documents/notes") and not await is_read(hiding, "~/Documents/notes")
    assert len(hiding.person.asked) == 1


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see ~/a/b.txt, and /etc/hosts.", ["~/a/b.txt", "/etc/hosts"]),
        ("\"~/my notes/x\" and '/srv/a b'", ["~/my notes/x", "/srv/a b"]),
        ("@file:~/x.py:10-20", ["~/x.py:10-20", "~/x.py"]),
        ("../up/x ./here a/b https://example.org/x 1/2", ["../up/x", "./here"]),
        ("看~/文档/信。", ["~/文档/信"]),
        ("/ and ~/ alone, n/a", []),
    ],
)
def test_paths_in_a_text(text: str, found: list[str]) -> None:
    assert find_named_paths(text) == found
