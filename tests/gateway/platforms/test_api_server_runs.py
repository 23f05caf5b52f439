"""Runs, sessions and jobs over the API."""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Mapping

import aiohttp
import pytest

from hermes.testing.home import TempHome
from hermes.testing.script import Call, ReplyDelivery, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.gateway.platforms.api_server_rig import Api, api, free_port, fresh_key

pytestmark = pytest.mark.slow


async def ended(it: Api, run_id: object) -> Mapping[str, object]:
    """A run once it has ended."""
    async with asyncio.timeout(60):
        while True:
            _, row = await it.ask("GET", f"/v1/runs/{run_id}")
            if row["ended_at"] is not None:
                return row
            await asyncio.sleep(0.02)


async def test_a_run_goes_on_by_itself_and_is_listened_to() -> None:
    async with api([Say("The result.", chunk=4, delivery=ReplyDelivery(pace=0.02))]) as it:
        status, run = await it.ask("POST", "/v1/runs", {"input": "work"})
        assert (status, run["object"]) == (202, "run")
        async with await it.stream("GET", f"/v1/runs/{run['id']}/events") as events:
            some = await events.until("run.text_delta")
        last = [line[4:] for line in some.splitlines() if line.startswith("id: ")][-1]
        async with await it.stream("GET", f"/v1/runs/{run['id']}/events", Last_Event_ID=last) as events:
            rest = await events.rest()
        ids = [line for line in (some + rest).splitlines() if line.startswith("id: ")]
        assert len(ids) == len(set(ids))
        deltas = [json.loads(line[6:]) for line in (some + rest).splitlines() if line.startswith("data: ")]
        assert "".join(one["data"]["text"] for one in deltas if one["type"] == "run.text_delta") == "The result."
        assert deltas[-1]["type"] == "run.ended"
        row = await ended(it, run["id"])
        assert (row["status"], row["output"]) == ("completed", "The result.")
        other = await it.ask("GET", "/v1/runs/run_nobody")
        assert other[0] == 404


async def test_the_same_key_is_the_same_run() -> None:
    async with api([Say("once"), Say("twice")]) as it:
        asked = [it.ask("POST", "/v1/runs", {"input": "work"}, Idempotency_Key="k1") for _ in range(5)]
        runs = await asyncio.gather(*asked)
        assert len({str(run["id"]) for _, run in runs}) == 1
        await ended(it, runs[0][1]["id"])
        assert len(it.model.requests) == 1
        status, _ = await it.ask("POST", "/v1/runs", {"input": "else"}, Idempotency_Key="k1")
        assert status == 409


async def test_runs_of_one_session_go_in_order() -> None:
    model = ScriptedModel(lambda request: Say(f"answer {request.number}", delivery=ReplyDelivery(delay=0.05)))
    async with api(model) as it:
        runs = [(await it.ask("POST", "/v1/runs", {"input": f"n{n}", "session_id": "s"}))[1] for n in range(4)]
        outputs = [(await ended(it, run["id"]))["output"] for run in runs]
        assert outputs == [f"answer {n}" for n in range(4)]
        _, messages = await it.ask("GET", "/v1/sessions/s/messages")
        said = [one["content"] for one in messages["data"]]  # type: ignore[attr-defined]
        assert said == [text for n in range(4) for text in (f"n{n}", f"answer {n}")]


async def test_a_run_is_stopped_where_it_runs_and_where_it_waits() -> None:
    slow = Say("word " * 200, chunk=5, delivery=ReplyDelivery(pace=0.1))
    async with api([slow, Say("after")]) as it:
        _, first = await it.ask("POST", "/v1/runs", {"input": "a", "session_id": "s"})
        await it.until(lambda: it.model.requests)
        _, second = await it.ask("POST", "/v1/runs", {"input": "b", "session_id": "s"})
        _, third = await it.ask("POST", "/v1/runs", {"input": "c", "session_id": "s"})
        assert (await it.ask("POST", f"/v1/runs/{second['id']}/stop", {}))[1]["status"] == "stopped"
        await it.ask("POST", f"/v1/runs/{first['id']}/stop", {})
        assert (await ended(it, first["id"]))["status"] == "stopped"
        assert (await ended(it, third["id"]))["output"] == "after"
        assert it.model.requests[0].closed_early_at is not None
        assert len(it.model.requests) == 2


@contextlib.asynccontextmanager
async def process(home: TempHome, port: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """A gateway in a process of its own, once it listens; killed in the end."""
    command = [sys.executable, "-m", "hermes", "gateway", "run"]
    gateway = await asyncio.create_subprocess_exec(
        *command, env=home.environ, cwd=home.cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(60), aiohttp.ClientSession() as http:
            while True:
                with contextlib.suppress(aiohttp.ClientError):
                    async with http.get(f"http://127.0.0.1:{port}/health") as answer:
                        if answer.status == 200:
                            break
                await asyncio.sleep(0.02)
        yield gateway
    finally:
        with contextlib.suppress(ProcessLookupError):
            gateway.kill()
        await gateway.communicate()


async def test_a_run_survives_a_kill() -> None:
    key, port = fresh_key(), free_port()
    slow = Say("word " * 200, chunk=5, delivery=ReplyDelivery(pace=0.05))
    async with ScriptedServer([slow, Say("first"), Say("second")]) as server, aiohttp.ClientSession() as http:
        accounts = {"platforms": {"api_server": {"key": key, "port": port}}}
        with TempHome.for_server(server.url, more_config=accounts) as home:
            it = Api(key, port, server, home, http)
            async with process(home, port):
                _, one = await it.ask("POST", "/v1/runs", {"input": "a", "session_id": "s"}, Idempotency_Key="one")
                await it.until(lambda: server.requests)
                _, two = await it.ask("POST", "/v1/runs", {"input": "b", "session_id": "s"})
            async with process(home, port):
                rows = [await ended(it, run["id"]) for run in (one, two)]
                _, again = await it.ask("POST", "/v1/runs", {"input": "a", "session_id": "s"}, Idempotency_Key="one")
    assert [(row["status"], row["output"]) for row in rows] == [("completed", "first"), ("completed", "second")]
    assert again["id"] == one["id"]
    assert len(server.requests) == 3


async def test_a_question_is_answered_by_a_key_that_may() -> None:
    may_not = fresh_key()
    keys = [{"key": may_not, "name": "no", "scopes": ["runs"]}]
    call = Call("terminal", {"command": "rm -rf ../../work/build"})
    replies = [Say(calls=(call,)), Say("done"), Say(calls=(call,)), Say("not done")]
    async with api(replies, keys=keys) as it:
        build = it.home.cwd / "build"
        build.mkdir()
        _, run = await it.ask("POST", "/v1/runs", {"input": "clean"})
        async with await it.stream("GET", f"/v1/runs/{run['id']}/events") as events:
            told = await events.until("run.approval_asked")
        assert "rm -rf ../../work/build" in told
        _, row = await it.ask("GET", f"/v1/runs/{run['id']}")
        assert row["status"] == "waiting_for_approval"
        question = row["approvals"][0]["approval_id"]  # type: ignore[index]
        path = f"/v1/runs/{run['id']}/approval"
        given = {"approval_id": question, "decision": "once"}
        assert (await it.ask("POST", path, given, key=may_not))[0] == 404
        answers = await asyncio.gather(*(it.ask("POST", path, given) for _ in range(8)))
        assert sorted(status for status, _ in answers) == [200] + [409] * 7
        assert (await ended(it, run["id"]))["output"] == "done"
        assert not build.exists()
        # A key without the right is nobody to ask: the answer is no, at once.
        build.mkdir()
        headers = {"Authorization": f"Bearer {may_not}"}
        async with it.http.post(f"{it.url}/v1/runs", json={"input": "clean"}, headers=headers) as answer:
            theirs = await answer.json()
        async with it.http.get(f"{it.url}/v1/runs/{theirs['id']}/events", headers=headers) as answer:
            assert '"status":"completed"' in await answer.text()
        assert build.exists()


async def test_sessions_are_listed_renamed_forked_and_deleted() -> None:
    async with api([Say("one"), Say("two"), Say("three")]) as it:
        for text in ("a", "b"):
            status, told = await it.ask("POST", "/v1/sessions/s/chat", {"input": text})
            assert status == 200
        assert told["text"] == "two"
        _, listed = await it.ask("GET", "/v1/sessions")
        assert [row["id"] for row in listed["data"]] == ["s"]  # type: ignore[attr-defined]
        assert (await it.ask("PATCH", "/v1/sessions/s", {"title": "A title"}))[1]["title"] == "A title"
        status, fork = await it.ask("POST", "/v1/sessions/s/fork", {"turns": 1, "id": "f"})
        assert (status, fork["id"]) == (201, "f")
        await it.ask("POST", "/v1/sessions/f/chat", {"input": "c"})
        assert len(it.model.requests[2].messages) == 4
        assert (await it.ask("DELETE", "/v1/sessions/s"))[1]["deleted"] is True
        assert (await it.ask("GET", "/v1/sessions/s"))[0] == 404
        assert (await it.ask("GET", "/v1/sessions/f"))[0] == 200


@pytest.mark.parametrize("role", ["admin", "user", "guest"])
async def test_jobs_are_the_owners_whatever_the_scopes_of_a_key(role: str) -> None:
    """An admin's chat has no jobs either: a job works with the owner's folder, memory and sessions."""
    other = fresh_key()
    keys = [{"key": other, "name": "u", "scopes": ["jobs", "admin", "chat"], "role": role}]
    async with api([Say("hello")], keys=keys) as it:
        job = {"name": "daily", "schedule": "0 9 * * *", "zone": "UTC", "prompt": "The owner's words."}
        assert (await it.ask("POST", "/api/jobs", job))[0] == 201
        for method, path in (
            *(("GET", "/api/jobs"), ("POST", "/api/jobs"), ("GET", "/api/jobs/daily"), ("PATCH", "/api/jobs/daily")),
            *(("DELETE", "/api/jobs/daily"), ("GET", "/api/jobs/daily/history"), ("POST", "/api/jobs/daily/run")),
            *(("POST", "/api/jobs/daily/stop"), ("POST", "/api/jobs/daily/pause"), ("POST", "/api/jobs/daily/resume")),
        ):
            status, body = await it.ask(method, path, {**job, "name": "mine"} if method != "GET" else None, key=other)
            assert (status, "owner's" in str(body)) == (403, False), (method, path, body)
        _, may = await it.ask("GET", "/v1/capabilities", key=other)
        assert may["features"]["jobs"] is False  # type: ignore[index]
        for path in ("/metrics", "/health/detailed", "/v1/skills", "/v1/toolsets"):
            async with it.http.get(f"{it.url}{path}", headers={"Authorization": f"Bearer {other}"}) as answer:
                assert answer.status == (200 if role == "admin" else 403), path
        _, kept = await it.ask("GET", "/api/jobs")
        assert [(one["name"], one["state"]) for one in kept["data"]] == [("daily", "active")]  # type: ignore[attr-defined]


async def test_jobs_are_looked_after() -> None:
    async with api([]) as it:
        job = {"name": "daily", "schedule": "0 9 * * *", "zone": "UTC", "prompt": "Tell me."}
        status, made = await it.ask("POST", "/api/jobs", job)
        assert (status, made["name"]) == (201, "daily")
        assert (await it.ask("PATCH", "/api/jobs/daily", {"prompt": "Say it."}))[0] == 200
        assert (await it.ask("POST", "/api/jobs/daily/pause", {}))[1]["state"] == "paused"
        assert (await it.ask("POST", "/api/jobs/daily/resume", {}))[1]["state"] == "active"
        assert (await it.ask("POST", "/api/jobs", {"schedule": 5}))[0] == 400
        assert (await it.ask("POST", "/api/jobs", {"nonsense": 5}))[0] == 400
        _, listed = await it.ask("GET", "/api/jobs")
        assert [one["name"] for one in listed["data"]] == ["daily"]  # type: ignore[attr-defined]
        assert (await it.ask("DELETE", "/api/jobs/daily"))[0] == 200
        assert (await it.ask("GET", "/api/jobs/daily"))[0] == 404


async def test_what_there_is() -> None:
    async with api([]) as it:
        for path in ("/v1/capabilities", "/v1/skills", "/v1/toolsets", "/health/detailed", "/v1/models", "/health"):
            assert (await it.ask("GET", path))[0] == 200, path
        _, detailed = await it.ask("GET", "/health/detailed")
        assert detailed["accounts"]["api_server"]["state"] == "connected"  # type: ignore[index]
        async with it.http.get(f"{it.url}/metrics", headers={"Authorization": f"Bearer {it.key}"}) as answer:
            assert "hermes_api_turns 0" in await answer.text()
