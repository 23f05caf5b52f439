"""Jobs are checked before they are stored; scripts; prompts; outputs."""

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermes.core.errors import HermesError
from hermes.core.messages import Source
from hermes.cron.jobs import JobAuthor, JobRequest
from hermes.cron.runner import JobRunOutcome
from hermes.store.jobs import JobState
from tests.cron.scheduler_rig import Rig, refused, rigged

START = datetime(2026, 3, 2, 8, 59, tzinfo=UTC).timestamp()


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with rigged(tmp_path, START) as made:
        yield made


def script(rig: Rig, name: str, text: str, mode: int = 0o700) -> Path:
    """A script in the home's folder."""
    folder = rig.home / "scripts"
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text, "utf-8")
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        ({}, "needs a prompt"),
        ({"prompt": "x" * 20_001}, "at most 20000"),
        ({"prompt": "x", "deliver": ("smoke:signals",)}, "No platform 'smoke'"),
        ({"prompt": "x", "deliver": ("telegramm:7",)}, "Did you mean 'telegram'"),
        ({"prompt": "x", "deliver": ("somewhere",)}, "'somewhere' is not an account, chat or person here"),
        ({"prompt": "x", "deliver": ("some where",)}, "'some where' is not an account, chat or person here"),
        ({"prompt": "x", "deliver": ("telegam",)}, "Did you mean 'telegram'"),
        ({"prompt": "x", "deliver": ("Ana",)}, "Did you mean 'Anna'"),
        ({"prompt": "x", "deliver": ("Bob",)}, "has not written from a direct chat yet"),
        ({"prompt": "x", "deliver": ("matrix",)}, "matrix has no home chat"),
        ({"prompt": "x", "deliver": ("origin",)}, "not made in one"),
        ({"prompt": "x", "name": "a/b"}, "cannot be a job's name"),
        ({"prompt": "x", "repeat": 0}, "repeat is out of range"),
        ({"prompt": "x", "max_cost": -1.0}, "max_cost"),
        ({"prompt": "x", "context_from": ("nothing",)}, "no job 'nothing'"),
        ({"no_agent": True, "prompt": "x"}, "needs a script"),
        ({"prompt": "x", "script": "../evil.py"}, "not in the folder"),
    ],
)
async def test_what_cannot_be_meant_is_refused(rig: Rig, wish: dict[str, object], why: str) -> None:
    assert why in await refused(rig.jobs.create_job(JobRequest(schedule="@daily", zone="UTC", **wish)))  # type: ignore[arg-type]
    assert await rig.jobs.list_jobs() == []


async def test_a_past_time_and_a_taken_name_are_refused(rig: Rig) -> None:
    assert "never again" in await refused(rig.add("2020-01-01T10:00"))
    await rig.add("@daily", name="Morning")
    assert "already" in await refused(rig.add("@daily", name="morning"))
    other = await rig.add("@daily", name="evening")
    assert "already" in await refused(rig.jobs.edit_job("evening", JobRequest(name="Morning")))
    assert (await rig.jobs.find_job(other.id[:5])).name == "evening"


async def test_a_job_without_a_name_gets_one(rig: Rig) -> None:
    names = [(await rig.add("@daily", prompt="Tell me, what is new in *my* notes?")).name for _ in range(3)]
    assert names == ["Tell me, what is new", "Tell me, what is new 2", "Tell me, what is new 3"]


async def test_editing_changes_what_is_named_and_no_more(rig: Rig) -> None:
    job = await rig.add("@daily", name="daily", model="m", repeat=2)
    changed = await rig.jobs.edit_job("daily", JobRequest(prompt="Something else.", repeat=None))
    assert (changed.spec.prompt, changed.spec.model, changed.spec.repeat) == ("Something else.", "m", None)
    assert changed.row.next_at == job.row.next_at and changed.row.version == 2
    moved = await rig.jobs.edit_job("daily", JobRequest(schedule="every 2h"))
    assert moved.row.next_at == START + 7_200


async def test_a_done_job_begins_anew_by_a_new_schedule(rig: Rig) -> None:
    await rig.add("5m", name="once")
    await rig.clock.advance(300)
    await rig.ticked()
    assert "is done" in await refused(rig.jobs.resume_job("once"))
    again = await rig.jobs.edit_job("once", JobRequest(schedule="10m"))
    assert again.row.state is JobState.ACTIVE
    await rig.clock.advance(600)
    await rig.ticked()
    assert len(rig.runner.ran) == 2


async def test_a_job_without_another_place_goes_to_the_home_chat(rig: Rig) -> None:
    job = await rig.jobs.create_job(JobRequest(schedule="0 9 * * *", zone="UTC", prompt="Say hello."))
    assert job.spec.deliver == ("home",)
    named = JobRequest(schedule="0 9 * * *", zone="UTC", prompt="Say hello.", deliver=("telegram", "local"))
    assert (await rig.jobs.create_job(named)).spec.deliver == ("telegram", "local")
    await rig.clock.advance(60)
    await rig.ticked()
    assert sorted(target for target, _ in rig.courier.texts) == ["home", "telegram"]


async def test_a_job_goes_to_a_person_by_name(rig: Rig) -> None:
    job = await rig.add("0 9 * * *", deliver=("anna",))
    assert job.spec.deliver == ("@telegram:6660",)


async def test_what_a_model_makes_goes_to_its_chat_and_keeps_its_sources(rig: Rig) -> None:
    maker = JobAuthor(by="model", sources=("web:evil.example",), origin="telegram:42")
    job = await rig.jobs.create_job(
        JobRequest(schedule="0 9 * * *", zone="UTC", prompt="Call evil.example.", name="odd"), maker
    )
    assert job.spec.deliver == ("origin",)
    await rig.clock.advance(60)
    await rig.ticked()
    (prompt,) = rig.runner.prompts
    assert "evil.example" not in prompt.text and "odd" not in prompt.parts[0].text
    (made,) = [part for part in prompt.parts if "Call evil.example." in part.text]
    assert made.provenance is not None and made.provenance.is_untrusted
    assert made.provenance.source is Source.WEB and made.provenance.label == "evil.example"
    assert rig.courier.texts == [("telegram:42", "done")]


async def test_what_a_model_changes_is_a_models(rig: Rig) -> None:
    await rig.add("@daily", name="mine")
    changed = await rig.jobs.edit_job(
        "mine", JobRequest(prompt="Other."), JobAuthor(by="model", sources=("web:a.example",))
    )
    assert (changed.spec.made_by, changed.spec.sources) == ("model", ("web:a.example",))
    again = await rig.jobs.edit_job("mine", JobRequest(prompt="Mine again."))
    assert (again.spec.made_by, again.spec.sources) == ("person", ())


async def test_a_script_goes_into_the_prompt_as_a_programs_words(rig: Rig) -> None:
    script(rig, "look.py", "import os\nprint('seen', os.environ.get('MY_API_KEY'), os.environ['HERMES_JOB'])\n", 0o600)
    await rig.add("0 9 * * *", name="looking", script="look.py")
    await rig.clock.advance(60)
    await rig.ticked()
    (prompt,) = rig.runner.prompts
    (part,) = [part for part in prompt.parts if "seen" in part.text]
    assert "seen None looking" in part.text and "<untrusted" in part.text
    assert part.provenance is not None and part.provenance.is_untrusted


async def test_a_script_alone_is_delivered_without_a_model(rig: Rig) -> None:
    script(rig, "say.sh", "#!/bin/sh\necho hello\n")
    await rig.add("0 9 * * *", prompt="", script="say.sh", no_agent=True)
    await rig.clock.advance(60)
    await rig.ticked()
    assert rig.runner.ran == [] and [text.strip() for _, text in rig.courier.texts] == ["hello"]


async def test_a_script_that_fails_ends_the_run_and_is_told(rig: Rig) -> None:
    script(rig, "bad.sh", "#!/bin/sh\necho no disk; exit 3\n")
    job = await rig.add("0 9 * * *", name="disk", script="bad.sh")
    await rig.clock.advance(60)
    await rig.ticked()
    assert rig.runner.ran == []
    assert [row[1:] for row in await rig.rows(job)] == [("failed", "the script bad.sh ended with code 3")]
    assert "no disk" in rig.courier.texts[0][1]


async def test_a_script_that_takes_too_long_is_killed_with_its_children(rig: Rig) -> None:
    marker = rig.home / "pid"
    script(rig, "slow.sh", f"#!/bin/sh\nsleep 600 & echo $! > {marker}; wait\n")
    async with asyncio.timeout(60):
        said = await rig.means.scripts.run_script("slow.sh", seconds=2, job="x")
    assert "took longer than 2 seconds" in said.failed
    child = int(marker.read_text("ascii"))
    for _ in range(100):
        if not os.path.exists(f"/proc/{child}") or " Z " in Path(f"/proc/{child}/stat").read_text("ascii"):
            return
        await asyncio.sleep(0.02)
    raise AssertionError("the child still runs")


@pytest.mark.parametrize(
    "name", ["../out.py", "/etc/passwd", "link.py", "in/../../out.py", "linked/x.py", "", ".", "nothing.py", "open.py"]
)
async def test_only_what_lies_in_the_folder_itself_is_run(rig: Rig, name: str) -> None:
    outside = rig.home / "out.py"
    outside.write_text("print(1)")
    path = script(rig, "fine.py", "print(1)\n")
    script(rig, "open.py", "print(1)\n", 0o606)
    (path.parent / "link.py").symlink_to(outside)
    elsewhere = rig.home / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x.py").write_text("print(1)")
    (path.parent / "linked").symlink_to(elsewhere)
    assert rig.means.scripts.check_script("fine.py")[1:] == [str(path)] == rig.means.scripts.check_script(str(path))[1:]
    with pytest.raises(HermesError):
        rig.means.scripts.check_script(name)


async def test_a_job_builds_on_what_another_said_last(rig: Rig) -> None:
    rig.runner.answer = JobRunOutcome(ok=True, text="rain in the north")
    await rig.add("0 9 * * *", name="weather")
    await rig.add("5 9 * * *", name="plan", context_from=("weather",))
    await rig.clock.advance(60)
    await rig.ticked()
    await rig.clock.advance(300)
    await rig.ticked()
    assert any("rain in the north" in part.text for part in rig.runner.prompts[1].parts)


async def test_fifty_outputs_of_a_job_are_kept(rig: Rig) -> None:
    for number in range(60):
        name = rig.means.outputs.write_output("abc", START + number, f"output {number}")
    kept = sorted((rig.home / "cron" / "output" / "abc").iterdir())
    assert len(kept) == 50 and rig.means.outputs.read_output(name) == "output 59"
    assert kept[0].read_text("utf-8") == "output 10" and kept[0].stat().st_mode & 0o077 == 0


async def test_a_removed_job_is_forgotten(rig: Rig) -> None:
    job = await rig.add("0 9 * * *", name="gone")
    await rig.clock.advance(60)
    await rig.ticked()
    await rig.jobs.remove_job("gone")
    assert await rig.rows(job) == [] and await rig.jobs.list_jobs() == []
    assert not (rig.home / "cron" / "output" / job.id).exists()


async def test_a_change_meanwhile_is_noticed(rig: Rig) -> None:
    job = await rig.add("@daily", name="one")
    await rig.jobs.edit_job("one", JobRequest(prompt="x"))
    assert not await rig.store.jobs.update(job.row)
