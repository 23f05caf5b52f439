"""Changes of skills: proposed, decided once, written whole, taken back; whatever else happens meanwhile."""

import asyncio
import sys
from pathlib import Path

import pytest

from hermes.core.errors import NotFoundError, UsageError
from hermes.skills import files as folders
from hermes.skills.diff import diff_lines
from hermes.skills.files import MAIN_FILE, Files, decode_files, encode_files, write_staged
from hermes.skills.skill_library import SkillChange, SkillLibrary
from hermes.store.revisions import RevisionAuthor, RevisionState
from hermes.testing.home import TempHome
from hermes.util.text import escape_unseen_characters
from tests.skills.skill_folders import put, skills_in, text


def files(body: str, name: str = "plain", **more: bytes) -> Files:
    return {MAIN_FILE: text(name, body=body).encode(), **{path.replace("__", "/"): data for path, data in more.items()}}


async def propose(skills: SkillLibrary, after: Files | None, **more: str) -> int:
    return await skills.propose_change(SkillChange("plain", after), author=RevisionAuthor.MODEL, **more)  # type: ignore[arg-type]


async def test_what_waits_is_no_skill_and_a_no_leaves_nothing(tmp_path: Path) -> None:
    async with skills_in(tmp_path) as skills:
        number = await propose(skills, files("one", scripts__run=b"#!/bin/sh\n", assets__x=b"\xff\0"))
        with pytest.raises(NotFoundError):
            await skills.read_instructions("plain")
        assert skills.list_offered() == [] and not (tmp_path / "skills").exists()
        await skills.reject_change(number, "person")
        assert not (tmp_path / "skills").exists()
        for answer in (skills.reject_change, skills.approve_change):
            with pytest.raises(UsageError):
                await answer(number, "person")
        with pytest.raises(NotFoundError):
            await skills.approve_change(99, "person")
        with pytest.raises(NotFoundError):
            await skills.approve_change(1 << 70, "person")


async def test_versions_go_back_and_forth(tmp_path: Path) -> None:
    async with skills_in(tmp_path) as skills:
        numbers = []
        for body in ("one", "two", "three"):
            numbers.append(await propose(skills, files(body, scripts__run=body.encode(), assets__x=b"\xff\0")))
            await skills.approve_change(numbers[-1], "person")
        (tmp_path / "skills/plain/.git").mkdir()
        assert await skills.read_instructions("plain") == "three"
        assert (await skills.roll_back("plain")).state is RevisionState.APPLIED
        assert await skills.read_instructions("plain") == "two"
        await skills.roll_back("plain", numbers[0])
        assert (await skills.read_instructions("plain"), await skills.read_text("plain", "scripts/run")) == (
            "one",
            "one",
        )
        assert (tmp_path / "skills/plain/assets/x").read_bytes() == b"\xff\0"
        assert (tmp_path / "skills/plain/.git").is_dir()
        assert (tmp_path / "skills/plain/scripts/run").stat().st_mode & 0o111 == 0
        await skills.approve_change(await propose(skills, None), "person")
        assert [path.name for path in (tmp_path / "skills").rglob("*")] == ["plain", ".git"]
        await skills.roll_back("plain")
        assert await skills.read_instructions("plain") == "one"
        with pytest.raises(UsageError, match="was not applied"):
            await skills.roll_back("plain", 999)
        assert len(await skills.list_revisions("plain")) == 7


async def test_a_built_in_one_is_copied_when_it_is_changed(tmp_path: Path) -> None:
    put(tmp_path / "built-in", "plain", text("plain", body="as it came"))
    async with skills_in(tmp_path) as skills:
        number = await propose(skills, files("better"))
        lines = await skills.diff_revision(await skills.get_revision(number))
        assert "-as it came" in lines and "+better" in lines
        await skills.approve_change(number, "person")
        assert await skills.read_instructions("plain") == "better"
        await skills.roll_back("plain")
        assert await skills.read_instructions("plain") == "as it came"
        assert (tmp_path / "built-in/plain/SKILL.md").read_text() == text("plain", body="as it came")


async def test_a_session_builds_on_what_it_proposed_and_others_do_not(tmp_path: Path) -> None:
    async with skills_in(tmp_path) as skills:
        first = await propose(skills, files("one"), session_id="a", reason="because")
        assert await skills.load_base("plain", "b") is None
        base = await skills.load_base("plain", "a")
        assert base is not None
        later = {**base, "references/more.md": b"more\n"}
        second = await skills.propose_change(
            SkillChange("plain", later),
            author=RevisionAuthor.MODEL,
            reason="more",
            sources=("web:x.example",),
            session_id="a",
        )
        other = await propose(skills, files("else"), session_id="b")
        assert [one.id for one in await skills.list_pending()] == [other, second]
        assert (await skills.get_revision(first)).decided_by == f"part of {second} now"
        merged = await skills.get_revision(second)
        assert (merged.reason, merged.sources) == ("because; more", ("web:x.example",))
        await skills.approve_change(second, "person")
        with pytest.raises(UsageError, match="has changed since"):
            await skills.approve_change(other, "person")
        assert await skills.list_files("plain") == [MAIN_FILE, "references/more.md"]


async def test_what_the_person_changed_by_hand_is_not_written_over(tmp_path: Path) -> None:
    folder = put(tmp_path / "skills", "home/plain", text("plain", body="one"))
    async with skills_in(tmp_path) as skills:
        number = await propose(skills, files("two"))
        (folder / MAIN_FILE).write_text(text("plain", body="mine"))
        with pytest.raises(UsageError, match="has changed since"):
            await skills.approve_change(number, "person")
        assert await skills.read_instructions("plain") == "mine"
        number = await propose(skills, files("three"))
        await skills.approve_change(number, "person")
        assert (folder / MAIN_FILE).read_text() == text("plain", body="three")


@pytest.mark.parametrize("name", ["../plain", "/plain", "a/b", "", "Plain", ".plain", "plain\n", "x" * 65, "-"])
async def test_a_name_that_is_a_path_is_refused(name: str, tmp_path: Path) -> None:
    async with skills_in(tmp_path) as skills:
        with pytest.raises(UsageError, match="cannot be a skill's name"):
            await skills.propose_change(SkillChange(name, files("x", name)), author=RevisionAuthor.MODEL)


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ({}, "no SKILL.md"),
        ({MAIN_FILE: b"x"}, "head"),
        (files("x", "other"), "must be the same"),
        ({**files("x"), "../out": b""}, "cannot be a file"),
        ({**files("x"), "references": b"", "references/a": b""}, "a file and a folder"),
        ({**files("x"), "assets/big": b"x" * (1 << 20 | 1)}, "1 MiB"),
        ({**files("x"), **{f"assets/{n}": b"x" * (1 << 20) for n in range(9)}}, "8 MiB"),
        ({**files("x"), **{f"assets/{n}": b"" for n in range(300)}}, "200 files"),
    ],
    ids=range(8),
)
async def test_what_cannot_be_a_skill_is_not_even_proposed(after: Files, said: str, tmp_path: Path) -> None:
    async with skills_in(tmp_path) as skills:
        with pytest.raises(UsageError, match=said):
            await propose(skills, after)
        assert await skills.list_pending() == []


async def test_a_process_that_died_in_between_is_finished(tmp_path: Path) -> None:
    put(tmp_path / "skills", "plain", text("plain", body="one"))
    own = tmp_path / "skills"
    async with skills_in(tmp_path) as skills:
        for step in ("staged", "taken away", "in place"):
            number = await propose(skills, files(f"after {step}"))
            staged = write_staged(own, "plain", files(f"after {step}"))
            await skills._store.revisions.transition(
                number, RevisionState.APPLYING, expecting=(RevisionState.PENDING,), by="person"
            )
            if step != "staged":
                (own / "plain").rename(own / f"{staged.name}.old")
            if step == "in place":
                staged.rename(own / "plain")
            await skills.settle_interrupted()
            assert await skills.read_instructions("plain") == f"after {step}"
            assert (await skills.get_revision(number)).state is RevisionState.APPLIED
            assert [path.name for path in own.iterdir()] == ["plain"]


async def test_what_was_only_staged_goes_away(tmp_path: Path) -> None:
    async with skills_in(tmp_path) as skills:
        number = await propose(skills, files("one"))
        write_staged(tmp_path / "skills", "plain", files("one"))
        assert skills.list_offered() == []
        await skills.settle_interrupted()
        assert (await skills.get_revision(number)).state is RevisionState.PENDING
        assert list((tmp_path / "skills").iterdir()) == []


WRITER = """
import asyncio, sys
from pathlib import Path
from hermes.core.errors import UsageError
from hermes.skills.files import MAIN_FILE
from hermes.skills.skill_library import SkillChange
from hermes.store.revisions import RevisionAuthor
from tests.skills.skill_folders import skills_in, text

async def main(folder, who):
    done = 0
    async with skills_in(Path(folder)) as skills:
        for number in range(8):
            body = f"{who} {number}\\n" * 500
            after = {MAIN_FILE: text("plain", body=body).encode(), "references/same.md": body.encode()}
            try:
                revision = await skills.propose_change(SkillChange("plain", after), author=RevisionAuthor.REVIEW)
                await skills.approve_change(revision, who)
                done += 1
            except UsageError as error:
                assert "has changed since" in str(error), error
    print(done)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_two_processes_write_one_skill(tmp_path: Path) -> None:
    async with skills_in(tmp_path):
        pass
    with TempHome() as home:
        home.more["PYTHONPATH"] = str(Path(__file__).parents[2])
        runs = [home.run(sys.executable, "-c", WRITER, str(tmp_path), who) for who in ("one", "two")]
        ended = await asyncio.gather(*runs)
    assert [one.stderr for one in ended] == ["", ""]
    done = sum(int(one.stdout) for one in ended)
    async with skills_in(tmp_path) as skills:
        changes = await skills.list_revisions("plain")
        applied = [one for one in changes if one.state is RevisionState.APPLIED]
        assert len(changes) == 16 and len(applied) == done >= 8
        assert (
            await skills.read_instructions("plain") == (await skills.read_text("plain", "references/same.md")).strip()
        )
        assert encode_files(await skills.load_base("plain")) == applied[0].after
    assert [path.name for path in (tmp_path / "skills").iterdir()] == ["plain"]


def test_files_are_kept_byte_for_byte() -> None:
    whole: Files = {"SKILL.md": "é\r\n".encode(), "assets/x": bytes(range(256)), "a": b"", "b": b'{"base64": 1}'}
    assert decode_files(encode_files(whole)) == whole
    assert encode_files(None) is None and decode_files(None) is None


def test_a_diff_hides_nothing() -> None:
    shown = diff_lines({"a": b"x\n"}, {"a": "x\x1b[31m\u202eevil\u200b\U000e0041，\n".encode(), "b": b"\0\1"})
    assert "+x\\u{1b}[31m\\u{202e}evil\\u{200b}\\u{e0041}，" in shown
    assert any(line.startswith("+++ b: binary, 2 bytes, sha256 ") for line in shown)
    assert len(diff_lines({}, {"a": b"x\n" * 10_000})) == 2 + 1 + 10_001, "it is whole, however long"
    assert diff_lines({}, {"a": b""}) == ["--- a: (none)", "+++ a: empty"]
    assert diff_lines({}, {}) == ["(nothing differs)"]
    assert escape_unseen_characters("天气，好　 é") == "天气，好　 é"


async def test_use_is_counted(tmp_path: Path) -> None:
    async with skills_in(tmp_path) as skills:
        await skills.count_use("plain")
        await skills.count_use("plain")
        await skills.note_outcome("plain", helped=True)
        await skills.note_outcome("plain", helped=False)
        known = (await skills.load_usefulness())["plain"]
        assert (known.used, known.helped, known.failed) == (2, 1, 1)


def test_what_is_no_skills_outlives_a_swap_that_was_broken_off(tmp_path: Path) -> None:
    left = tmp_path / f"{folders.STAGING_PREFIX}0123456789ab-two-words.old"
    for path in (".git/work", "references/.notes", "SKILL.md"):
        (left / path).parent.mkdir(parents=True, exist_ok=True)
        (left / path).write_text("a year of work")
    folders.clear_leftovers(tmp_path)
    there = sorted(str(one.relative_to(tmp_path)) for one in tmp_path.rglob("*") if one.is_file())
    assert there == ["two-words/.git/work", "two-words/references/.notes"]


def test_what_has_no_place_to_go_back_to_is_kept_beside(tmp_path: Path) -> None:
    for folder in (f"{folders.STAGING_PREFIX}0123456789ab-plain.old", "plain"):
        (tmp_path / folder / ".git").mkdir(parents=True)
        (tmp_path / folder / ".git/work").write_text(folder)
    folders.clear_leftovers(tmp_path)
    assert (tmp_path / ".kept-0123456789ab-plain.old/.git/work").exists()
    assert (tmp_path / "plain/.git/work").read_text() == "plain"
    assert not folders.list_leftovers(tmp_path)


def test_what_cannot_be_written_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        write_staged(tmp_path, "plain", {"assets": b"x", "assets/below": b"x"})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("at", "gone"), [(0, 0), (0, 3), (2_500, 1), (2_500, 0), (4_999, 1), (5_000, 0), (1, 4_999)])
@pytest.mark.parametrize("put_there", [[], ["new"], ["new", "newer"]])
def test_a_long_change_is_one_block_that_leads_from_one_to_the_other(at: int, gone: int, put_there: list[str]) -> None:
    before = [str(number) for number in range(5_000)]
    after = [*before[:at], *put_there, *before[at + gone :]]
    if before == after:
        return
    head, *block = diff_lines({"a": "\n".join(before).encode()}, {"a": "\n".join(after).encode()})[2:]
    old = [line[1:] for line in block if line[0] in " -"]
    new = [line[1:] for line in block if line[0] in " +"]
    start = max(at - 3, 0)
    assert head == f"@@ -{start + 1},{len(old)} +{start + 1},{len(new)} @@"
    assert before[:start] + new + before[start + len(old) :] == after
    assert before[start : start + len(old)] == old
    assert [line[1:] for line in block if line[0] == "-"] == before[at : at + gone]
