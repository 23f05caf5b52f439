"""What becomes of due instants: each ends as one row, with a reason, and people hear of it."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec import structs

from hermes.core.errors import BusyError
from hermes.cron.job import CatchUp, Overlap
from hermes.cron.jobs import JobRequest
from hermes.cron.runner import JobRunOutcome
from hermes.store.jobs import InstantEnd, InstantState, JobState
from hermes.util.process_identity import identify_this_process
from tests.cron.scheduler_rig import Rig, refused, rigged

START = datetime(2026, 3, 2, 8, 59, tzinfo=UTC).timestamp()
NINE = START + 60
DAY = 86_400


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with rigged(tmp_path, START) as made:
        yield made


async def test_a_due_instant_runs_and_is_delivered(rig: Rig) -> None:
    job = await rig.add("0 9 * * *", name="morning")
    await rig.ticked()
    assert rig.runner.ran == []
    await rig.clock.advance(60)
    await rig.ticked()
    assert rig.runner.ran == [("morning", NINE)]
    assert await rig.rows(job) == [(NINE, "ran", "")]
    assert rig.courier.texts == [("telegram:7", "done")]
    found = await rig.store.jobs.get(job.id)
    assert found is not None and found.next_at == NINE + DAY
    await rig.ticked()
    assert len(rig.runner.ran) == len(rig.courier.sent) == 1


async def test_the_prompt_says_that_nobody_is_there(rig: Rig) -> None:
    await rig.add("0 9 * * *", name="morning", prompt="Report the weather.")
    await rig.clock.advance(60)
    await rig.ticked()
    (prompt,) = rig.runner.prompts
    assert prompt.text == "Report the weather."
    assert "'morning'" in prompt.parts[0].text and "2026-03-02 09:00 (UTC)" in prompt.parts[0].text
    assert "Nobody is there" in prompt.parts[0].text


@pytest.mark.parametrize(
    ("policy", "ran", "missed"),
    [(CatchUp.SKIP, [], 3), (CatchUp.LAST, [NINE + 2 * DAY], 2), (CatchUp.ALL, [NINE + DAY, NINE + 2 * DAY], 1)],
)
async def test_after_a_sleep_the_policy_says_what_runs(
    rig: Rig, policy: CatchUp, ran: list[float], missed: int
) -> None:
    job = await rig.add("0 9 * * *", name="daily", catch_up=policy, catch_up_limit=2)
    await rig.clock.advance(2 * DAY + 6 * 3_600)
    await rig.ticked()
    assert [at for _, at in rig.runner.ran] == ran
    states = [state for _, state, _ in await rig.rows(job)]
    assert states.count("ran") == len(ran) and states.count("missed") == missed == 3 - len(ran)
    told = [text for _, text in rig.courier.texts if "missed" in text]
    assert len(told) == 1 and "daily" in told[0]


async def test_what_was_missed_of_several_jobs_is_one_message(rig: Rig) -> None:
    for name in ("one", "two", "three"):
        await rig.add("0 9 * * *", name=name, quiet=name == "three")
    await rig.clock.advance(DAY + 6 * 3_600)
    await rig.ticked()
    ((target, text),) = rig.courier.texts
    assert target == "telegram:7" and "one: 2 times" in text and "two: 2 times" in text and "three" not in text


async def test_within_the_grace_only_the_newest_runs(rig: Rig) -> None:
    job = await rig.add("*/1 * * * *", name="often")
    await rig.clock.advance(150)
    await rig.ticked()
    reasons = [(state, reason) for _, state, reason in await rig.rows(job)]
    assert reasons == [("missed", "coalesced: a later instant runs in its place"), ("ran", "")]
    assert rig.courier.texts == [("telegram:7", "done")]


async def test_a_one_shot_is_late_by_two_minutes_at_most(rig: Rig) -> None:
    early = await rig.add("5m", name="early")
    late = await rig.add("in 5 minutes", name="late")
    assert late.schedule.next_after(START) == START + 300
    await rig.clock.advance(300 + 119)
    await rig.ticked()
    await rig.jobs.edit_job("late", JobRequest(schedule="1m"))
    await rig.clock.advance(60 + 121)
    await rig.ticked()
    assert [state for _, state, _ in await rig.rows(early)] == ["ran"]
    assert [state for _, state, _ in await rig.rows(late)] == ["ran", "missed"]
    assert {row.state for row in await rig.store.jobs.list_all()} == {JobState.DONE}


async def test_overlap_skip(rig: Rig) -> None:
    job = await rig.add("*/5 * * * *", name="slow")
    rig.runner.gate = asyncio.Event()
    await rig.clock.advance(60)
    await rig.scheduler.tick()
    await rig.runner.began.wait()
    await rig.clock.advance(300)
    await rig.scheduler.tick()
    rig.runner.gate.set()
    await rig.scheduler.run_until_empty()
    assert [row[1:] for row in await rig.rows(job)] == [("ran", ""), ("skipped", "an earlier run was still going on")]


async def test_overlap_queue(rig: Rig) -> None:
    job = await rig.add("*/5 * * * *", name="slow", overlap=Overlap.QUEUE)
    rig.runner.gate = asyncio.Event()
    await rig.clock.advance(60)
    await rig.scheduler.tick()
    await rig.runner.began.wait()
    await rig.clock.advance(300)
    await rig.scheduler.tick()
    assert [row[1] for row in await rig.rows(job)] == ["claimed", "due"]
    rig.runner.gate.set()
    await rig.scheduler.run_until_empty()
    assert [row[1] for row in await rig.rows(job)] == ["ran", "ran"]


async def test_overlap_stop(rig: Rig) -> None:
    job = await rig.add("*/5 * * * *", name="slow", overlap=Overlap.STOP)
    rig.runner.gate = asyncio.Event()
    await rig.clock.advance(60)
    await rig.scheduler.tick()
    await rig.runner.began.wait()
    await rig.clock.advance(300)
    await rig.scheduler.tick()
    await rig.clock.advance(1)
    rig.runner.gate = None
    await rig.scheduler.run_until_empty()
    assert [row[1:] for row in await rig.rows(job)] == [("failed", "the next instant came"), ("ran", "")]
    assert rig.runner.stopped == {job.id}


async def test_stop_ends_a_run_with_a_reason_that_is_told(rig: Rig) -> None:
    job = await rig.add("0 9 * * *", name="long")
    rig.runner.gate = asyncio.Event()
    await rig.clock.advance(60)
    await rig.scheduler.tick()
    await rig.runner.began.wait()
    assert "runs now" in await refused(rig.jobs.remove_job("long"))
    assert await rig.jobs.stop_job("long") == 1
    await rig.clock.advance(1)
    await rig.scheduler.run_until_empty()
    assert [row[1:] for row in await rig.rows(job)] == [("failed", "somebody stopped it")]
    assert "failed: somebody stopped it" in rig.courier.texts[0][1]


async def test_a_failure_is_told_unless_it_is_not_wanted(rig: Rig) -> None:
    rig.runner.answer = JobRunOutcome(ok=False, reason="the provider is down", text="half an ans")
    await rig.add("0 9 * * *", name="loud")
    await rig.add("0 9 * * *", name="quiet", quiet=True)
    await rig.clock.advance(60)
    await rig.ticked()
    ((_, text),) = rig.courier.texts
    assert "loud" in text and "the provider is down" in text and "half an ans" in text


@pytest.mark.parametrize(
    ("answer", "why"),
    [("[SILENT]", "nothing to say"), (" [silent]\n", "nothing to say"), ("", "it had no output")],
)
async def test_silence_is_not_delivered(rig: Rig, answer: str, why: str) -> None:
    rig.runner.answer = JobRunOutcome(ok=True, text=answer)
    job = await rig.add("0 9 * * *")
    await rig.clock.advance(60)
    await rig.ticked()
    assert await rig.rows(job) == [(NINE, "ran", why)]
    assert not rig.courier.sent


async def test_a_heartbeat_asks_the_model_only_when_its_script_says_so(rig: Rig) -> None:
    folder = rig.home / "scripts"
    folder.mkdir()
    for name, code in {"yes.sh": 0, "no.sh": 1, "broken.sh": 3}.items():
        (folder / name).write_text(f"#!/bin/sh\necho two new letters\nexit {code}\n")
        (folder / name).chmod(0o700)
    jobs = {name: await rig.add("0 9 * * *", name=name, only_if=f"{name}.sh") for name in ("yes", "no", "broken")}
    await rig.clock.advance(60)
    await rig.ticked()
    assert [name for name, _ in rig.runner.ran] == ["yes"]
    assert any("two new letters" in part.text for part in rig.runner.prompts[0].parts)
    assert await rig.rows(jobs["no"]) == [(NINE, "ran", "nothing to say: no.sh found nothing to do")]
    assert (await rig.rows(jobs["broken"]))[0][1] == "failed"
    assert len(rig.courier.sent) == 2  # the answer, and the failure


async def test_quiet_hours_cost_nothing_and_are_listed(rig: Rig) -> None:
    job = await rig.add("0 9 * * *", name="beat", quiet_hours="22-10")
    awake = await rig.add("0 9 * * *", name="awake", quiet_hours="22:00-09:00")
    await rig.clock.advance(60)
    await rig.ticked()
    assert await rig.rows(job) == [(NINE, "ran", "nothing to say: quiet hours")]
    assert [name for name, _ in rig.runner.ran] == ["awake"] and (await rig.rows(awake))[0][2] == ""
    await rig.scheduler.run_now(job)  # somebody wants it now
    assert [name for name, _ in rig.runner.ran] == ["awake", "beat"]
    for wrong in ("22", "25-26", "7-7", "late"):
        assert "no quiet hours" in await refused(rig.add("@daily", quiet_hours=wrong))


async def test_what_nobody_reaches_stays_owed(rig: Rig) -> None:
    job = await rig.add("0 9 * * *")
    rig.courier.here = False
    await rig.clock.advance(60)
    await rig.ticked()
    (row,) = await rig.store.jobs.list_history(job.id, 10)
    assert row.delivery == "owed"
    rig.courier.here = True
    await rig.again().tick()
    assert rig.courier.texts == [("telegram:7", "done")]
    (row,) = await rig.store.jobs.list_history(job.id, 10)
    assert row.delivery == "delivered"


async def test_what_nobody_reaches_for_a_week_is_given_up_and_holds_nothing_up(rig: Rig) -> None:
    here, rig.courier.here = await rig.add("0 9 * * *", name="one"), False
    await rig.clock.advance(60)
    await rig.ticked()
    await rig.jobs.pause_job("one")
    await rig.clock.advance(7 * DAY + 60)
    await rig.ticked()
    (row,) = await rig.store.jobs.list_history(here.id, 10)
    assert row.delivery == "failed" and "for a week" in row.delivery_why and not rig.courier.sent


async def test_a_job_that_cannot_be_read_holds_nothing_up(rig: Rig) -> None:
    for name in ("broken", "fine"):
        await rig.add("0 9 * * *", name=name)
    broken = (await rig.jobs.find_job("broken")).row
    assert await rig.store.jobs.update(structs.replace(broken, zone="Europe/Atlantis"))
    await rig.clock.advance(60)
    await rig.ticked()
    assert [name for name, _ in rig.runner.ran] == ["fine"]
    assert (await rig.store.jobs.check_pending()).wake_at == NINE + 3_600


async def test_a_delivery_that_is_refused_says_so(rig: Rig) -> None:
    job = await rig.add("0 9 * * *")
    rig.courier.down = True
    await rig.clock.advance(60)
    await rig.ticked()
    (row,) = await rig.store.jobs.list_history(job.id, 10)
    assert row.state == "ran" and row.delivery == "failed" and "The outbox is full" in row.delivery_why


async def test_repeat_ends_it(rig: Rig) -> None:
    job = await rig.add("0 * * * *", repeat=3)
    await rig.clock.advance(60)
    for _ in range(6):
        await rig.ticked()
        await rig.clock.advance(3_600)
    assert [state for _, state, _ in await rig.rows(job)] == ["ran"] * 3
    found = await rig.store.jobs.get(job.id)
    assert found is not None and found.state is JobState.DONE and found.next_at is None


async def test_jitter_is_always_the_same_and_keeps_the_instant(rig: Rig) -> None:
    jobs = [await rig.add("0 9 * * *", name=f"job{n}", jitter=300) for n in range(5)]
    offsets = {job.offset for job in jobs}
    assert len(offsets) > 1 and all(0 <= one < 300 for one in offsets)
    for job in jobs:
        assert job.row.wake_at == NINE + job.offset
    await rig.clock.advance(60 + max(offsets) - 1)
    await rig.ticked()
    assert len(rig.runner.ran) == sum(job.offset < max(offsets) for job in jobs)
    await rig.clock.advance(1)
    await rig.ticked()
    assert len(rig.runner.ran) == 5 and {at for _, at in rig.runner.ran} == {NINE}


async def test_the_clock_goes_back_and_nothing_runs_twice(rig: Rig) -> None:
    job = await rig.add("0 * * * *", name="hourly")
    await rig.clock.advance(3_660)
    await rig.ticked()
    before = list(rig.runner.ran)
    rig.clock.set_now(NINE - 1_000)
    for _ in range(2):
        await rig.clock.advance(1_800)
        await rig.ticked()
    assert rig.runner.ran == before
    rig.clock.set_now(NINE + 2 * 3_600)
    await rig.ticked()
    assert [at for _, at in rig.runner.ran] == [NINE + 3_600, NINE + 2 * 3_600]
    assert len(await rig.rows(job)) == 3


async def test_a_clock_that_was_far_ahead_is_forgiven_by_resume(rig: Rig) -> None:
    job = await rig.add("0 9 * * *", name="daily")
    rig.clock.set_now(START + 4_000 * DAY)
    await rig.ticked()
    rows = await rig.store.jobs.list_history(job.id, 10_000)
    assert sum(row.instants for row in rows) == 4_000 and len(rows) <= 1_001
    rig.clock.set_now(START)
    await rig.jobs.resume_job("daily")
    await rig.clock.advance(60)
    await rig.ticked()
    assert rig.runner.ran == [("daily", NINE)]


async def test_paused_jobs_owe_nothing(rig: Rig) -> None:
    job = await rig.add("0 9 * * *", name="daily")
    await rig.jobs.pause_job("daily")
    await rig.clock.advance(5 * DAY)
    await rig.ticked()
    assert await rig.rows(job) == []
    await rig.jobs.resume_job("daily")
    await rig.clock.advance(60)
    await rig.ticked()
    assert len(rig.runner.ran) == 1


async def test_run_by_hand_needs_no_schedule_and_only_one_at_a_time(rig: Rig) -> None:
    job = await rig.add("0 9 * * *", name="daily")
    await rig.jobs.pause_job("daily")
    row = await rig.scheduler.run_now(job)
    assert (row.state, row.by_hand, row.at, row.delivery) == ("ran", True, START, "delivered")
    rig.runner.gate, rig.runner.began = asyncio.Event(), asyncio.Event()
    first = asyncio.create_task(rig.scheduler.run_now(job))
    await rig.runner.began.wait()
    with pytest.raises(BusyError):
        await rig.scheduler.run_now(job)
    rig.runner.gate.set()
    assert (await first).state == "ran"
    assert [state for _, state, _ in await rig.rows(job)] == ["ran", "ran", "skipped"]


@pytest.mark.parametrize("repeatable", [False, True])
async def test_closing_ends_runs_by_name(rig: Rig, repeatable: bool) -> None:
    job = await rig.add("0 9 * * *", repeatable=repeatable)
    rig.runner.gate = asyncio.Event()
    await rig.clock.advance(60)
    await rig.scheduler.tick()
    await rig.runner.began.wait()
    await rig.scheduler.close()
    if not repeatable:
        assert [row[1:] for row in await rig.rows(job)] == [("failed", "Hermes was closed")]
        return
    rig.runner.gate = None
    rig.again()
    await rig.ticked()
    assert [row[1:] for row in await rig.rows(job)] == [("ran", "")]


async def test_a_claim_is_taken_over_only_when_its_process_and_its_lease_have_ended(rig: Rig) -> None:
    program = "from hermes.util.process_identity import identify_this_process; print(identify_this_process())"
    dead = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.strip()
    jobs = [await rig.add("0 9 * * *", name=name) for name in ("dead", "living")]
    for job, owner in zip(jobs, (f"{dead} x", f"{identify_this_process()} other"), strict=True):
        at = await rig.store.jobs.add_manual_instant(job.id, START)
        assert await rig.store.jobs.claim_instant(job.id, at, owner=owner, until=START + 60) == 1
        assert await rig.store.jobs.claim_instant(job.id, at, owner="me", until=START + 60) is None
    await rig.clock.advance(59)
    await rig.ticked()
    assert [[row[1] for row in await rig.rows(job)] for job in jobs] == [["claimed"], ["claimed"]]
    rig.clock.set_now(START + 3_600)  # the clock jumps: who lives keeps its claim
    await rig.ticked()
    (first, *_), (second, *_) = [await rig.rows(job) for job in jobs]
    assert first[1:] == ("failed", "the process ended") and second[1] == "claimed"


async def test_an_end_that_names_an_old_claim_counts_for_nothing(rig: Rig) -> None:
    job = await rig.add("0 9 * * *")
    at = await rig.store.jobs.add_manual_instant(job.id, START)
    assert await rig.store.jobs.claim_instant(job.id, at, owner="one", until=START) == 1
    assert await rig.store.jobs.release_instant(job.id, at, fence=1)
    assert await rig.store.jobs.claim_instant(job.id, at, owner="two", until=START) == 2
    assert not await rig.store.jobs.end_instant(job.id, at, fence=1, end=InstantEnd(state=InstantState.RAN))
    assert not await rig.store.jobs.renew_instant(job.id, at, fence=1, until=START + 60)
    assert await rig.store.jobs.end_instant(job.id, at, fence=2, end=InstantEnd(state=InstantState.RAN))


async def test_run_ticks_by_itself(rig: Rig) -> None:
    job = await rig.add("0 9 * * *")
    task = asyncio.create_task(rig.scheduler.run())
    while not rig.runner.ran:
        await rig.clock.wait_for_sleepers()
        await rig.clock.advance(15)
    assert rig.clock.now() - NINE < 30
    made = await rig.add("30m", name="new")
    rig.scheduler.notify_changed()
    assert made.row.next_at is not None
    await rig.clock.wait_for_sleepers()
    assert max(rig.clock.slept) <= 60
    task.cancel()
    await asyncio.wait({task})
    assert [row[1] for row in await rig.rows(job)] == ["ran"]
