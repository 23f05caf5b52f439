"""The gateway as a service: its files, its life as a process, what it says of itself, and sending from scripts."""

import asyncio
import fcntl
import json
import os
import plistlib
import pwd
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import aiohttp
import msgspec
import pytest

from hermes.admin.service import gateway_process as process_module
from hermes.admin.service.gateway_log import MAX_FILE_BYTES, MAX_FILES, GatewayLog, create_entry, read_log
from hermes.admin.service.sd_notify import ServiceNotifier
from hermes.admin.service.service import (
    GatewayService,
    ServiceError,
    ServiceKind,
    ServicePlan,
    ServiceSpec,
    build_launchd_plist,
    build_systemd_unit,
    detect_service_kind,
    execute_plan,
    format_plan,
)
from hermes.config.gateway import AccountSettings, ChannelSettings
from hermes.config.home import HermesHome
from hermes.core.errors import BusyError, NotFoundError
from hermes.gateway.run import MAX_FAILED_STARTS, FailedStarts
from hermes.testing.home import TempHome
from hermes.testing.script import Say
from hermes.testing.server import ScriptedServer
from tests.admin.unit_files import read_values, read_words, verify_unit
from tests.forked_hermes import run_hermes
from tests.gateway.gateway_rig import home_for
from tests.gateway.gateway_rig import running as in_process
from tests.gateway.served_gateway import hermes, served
from tests.vendors.ntfy import Fake

pytestmark = pytest.mark.slow

ODD = 'a "quoted" $HOME 100% back\\slash'


def _wish(folder: str = "/tmp") -> ServiceSpec:
    return ServiceSpec(
        arguments=("/usr/bin/env", "python3", ODD),
        folder=folder,
        drain_seconds=60,
        environ={"HERMES_HOME": folder, "ODD": ODD},
        name="org.hermes.gateway",
        log="/tmp/gateway.out",
    )


@pytest.mark.needs("systemd")
@pytest.mark.parametrize("user", ["", "nobody"])
def test_the_units_are_hardened_and_leave_the_sandbox_its_namespaces(tmp_path: Path, user: str) -> None:
    """M13: what systemd-analyze asks for, but what bubblewrap needs."""
    text = build_systemd_unit(_wish(), user=user)
    assert ("User=nobody" in text, "WantedBy=multi-user.target" in text) == (bool(user), bool(user))
    for breaks_bubblewrap in (
        "RestrictNamespaces",
        "ProtectKernelTunables",
        "ProtectProc",
        "ProtectHostname",
        "@mount",
    ):
        assert breaks_bubblewrap not in text
    file = tmp_path / "hermes-gateway.service"
    file.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--no-pager", str(file)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    found = re.search(r"Overall exposure level.*: ([0-9.]+)", done.stdout)
    assert found is not None, done.stderr
    assert float(found[1]) < (5.0 if user else 9.0), done.stdout


async def test_units_are_shown_where_no_systemd_is_reached() -> None:
    """M13: in a container, after `su`, over ssh: both units to copy, and a word on linger and XDG_RUNTIME_DIR."""
    with TempHome({}) as home:
        done = await run_hermes(home, "gateway", "install", "--dry-run")
        assert done.code == 0, done.stderr
        assert done.stdout.count("[Service]") == 2 and "/etc/systemd/system/" in done.stdout
        assert "enable-linger" in done.stdout and "XDG_RUNTIME_DIR" in done.stdout
        system = await run_hermes(home, "gateway", "install", "--dry-run", "--system")
        assert system.code == 0 and system.stdout.count("[Service]") == 1 and "User=" in system.stdout
        own = await run_hermes(home, "gateway", "install", "--dry-run", "--user")
        assert own.code == 0 and own.stdout.count("[Service]") == 1 and "User=" not in own.stdout
        assert "no systemd" in (await run_hermes(home, "gateway", "install", "--yes")).stderr.lower()


@pytest.mark.skipif(os.getuid() != 0, reason="only root installs for others")
async def test_root_stops_no_process_that_another_account_only_names() -> None:
    """The account writes the process id itself: it could name any process, and by a number below zero many."""
    with TempHome({}) as made:
        home = HermesHome(made.hermes)
        os.chown(made.hermes, pwd.getpwnam("nobody").pw_uid, -1)
        home.locks.mkdir()
        sleeper = await asyncio.create_subprocess_exec("sleep", "600")
        try:
            with open(home.locks / process_module.LOCK_FILE, "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                for named in (sleeper.pid, -sleeper.pid):
                    lock.seek(0)
                    lock.truncate()
                    lock.write(f"{named}\n")
                    lock.flush()
                    with pytest.raises(BusyError, match="does not belong"):
                        await asyncio.to_thread(process_module.stop_gateway, home, 0.1)
            assert sleeper.returncode is None
        finally:
            sleeper.kill()
            await sleeper.wait()


@pytest.mark.skipif(os.getuid() != 0, reason="only root installs for others")
async def test_root_installs_no_home_of_its_own_for_another_account() -> None:
    with TempHome({}, more={"SUDO_USER": "nobody"}) as home:
        done = await run_hermes(home, "gateway", "install", "--dry-run", "--system")
        assert done.code == 2 and "does not belong to nobody" in done.stderr and done.stdout == "", done
        os.chown(home.hermes, pwd.getpwnam("nobody").pw_uid, -1)
        done = await run_hermes(home, "gateway", "install", "--dry-run", "--system")
        assert done.code == 0 and "User=nobody\n" in done.stdout, done.stderr


@pytest.mark.needs("systemd")
@pytest.mark.parametrize("name", ["plain", "with a space", "100%h", "Straße-文", "o'brien", "$HOME${HOME}", ODD, "\\"])
def test_the_unit_is_one_that_systemd_takes(tmp_path: Path, name: str) -> None:
    """Homes and interpreters may have any name: systemd finds the program, and reads the values as they are meant."""
    folder = tmp_path / name
    folder.mkdir()
    program = folder / "python"
    program.symlink_to(sys.executable)
    wish = _wish(str(folder))
    text = build_systemd_unit(msgspec.structs.replace(wish, arguments=(str(program), *wish.arguments)))
    assert "Type=notify\n" in text and "WatchdogSec=60\n" in text
    assert "RestartPreventExitStatus=78\n" in text and "TimeoutStopSec=90\n" in text
    assert verify_unit(text, tmp_path) == ""
    assert "not executable" in verify_unit(text.replace("/python", "/gone").replace("/bin/sh", "/gone"), tmp_path)
    (command,), (where,) = (read_values(text, one) for one in ("ExecStart", "WorkingDirectory"))
    assert read_words(command)[-4:] == [str(program), *wish.arguments]
    assert Path(where.replace("%%", "%")) == folder
    assert [read_words(one) for one in read_values(text, "Environment")] == [[f"HERMES_HOME={folder}"], [f"ODD={ODD}"]]


def test_the_plist_says_the_same() -> None:
    read = plistlib.loads(build_launchd_plist(_wish()).encode())
    assert read["ProgramArguments"] == ["/usr/bin/env", "python3", ODD]
    assert read["EnvironmentVariables"]["ODD"] == ODD
    assert read["ExitTimeOut"] == 90


def test_installing_shows_first_what_it_would_do(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "SECRET_KEY": "never written down"}
    service = GatewayService(HermesHome(tmp_path / ".hermes"), environ, ServiceKind.SYSTEMD, 60)
    plan = service.plan_install()
    shown = "\n".join(format_plan(plan))
    assert str(tmp_path / ".config/systemd/user/hermes-gateway.service") in shown
    assert "systemctl --user enable hermes-gateway.service" in shown
    assert "never written down" not in shown
    assert not service.installed
    other = GatewayService(HermesHome(tmp_path / "other"), environ, ServiceKind.SYSTEMD, 60)
    assert other.name != service.name
    with pytest.raises(NotFoundError, match="gateway start"):
        GatewayService(HermesHome(tmp_path / ".hermes"), environ, ServiceKind.PLAIN, 60).plan_install()
    assert detect_service_kind({"XDG_RUNTIME_DIR": str(tmp_path), "PATH": ""}, "linux") is ServiceKind.PLAIN


async def test_the_watchdog_is_petted_while_the_loop_turns(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "notify"))
        heard.setblocking(False)
        notifier = ServiceNotifier({"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "100000"})
        notifier.notify_ready("STATUS=here")
        notifier.start_watchdog()
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(60):
            assert await loop.sock_recv(heard, 4096) == b"READY=1\nSTATUS=here"
            assert [await loop.sock_recv(heard, 4096) for _ in range(3)] == [b"WATCHDOG=1"] * 3
        await notifier.close()
    ServiceNotifier({}).notify_ready()
    assert ServiceNotifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).notify_ready() is None


def test_failed_starts_are_waited_for(tmp_path: Path) -> None:
    starts = FailedStarts(tmp_path / "run")
    assert [starts.record_start() for _ in range(MAX_FAILED_STARTS)] == [0.0] * MAX_FAILED_STARTS
    assert 50 < starts.record_start() <= 60
    starts.clear_starts()
    assert starts.record_start() == 0.0


def test_the_log_turns_over_and_can_be_read_by_account(tmp_path: Path) -> None:
    log = GatewayLog(tmp_path, lambda text: text.replace("hidden", "[redacted]"))
    log.write_entry(create_entry("said", account="one", text="hidden", level="error"))
    log.write_entry(create_entry("arrived", lane="two:chat:"))
    assert [one.text for one in read_log(tmp_path, "one", 10)] == ["[redacted]"]
    assert [one.event for one in read_log(tmp_path, "two", 10)] == ["arrived"]
    assert [one.event for one in read_log(tmp_path, "", 10, "error")] == ["said"]
    for number in range(MAX_FILES + 2):
        with open(tmp_path / "gateway.log", "a") as file:
            file.write("x" * MAX_FILE_BYTES + "\n")
        log.close()
        log = GatewayLog(tmp_path, str)
        log.write_entry(create_entry("arrived", count=number))
    log.close()
    assert len(list(tmp_path.glob("gateway*.log"))) == MAX_FILES
    assert read_log(tmp_path, "", 1)[0].count == MAX_FILES + 1


async def test_it_is_started_shown_reloaded_and_ended() -> None:
    async with ScriptedServer([]) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            code, out, err = await hermes(home, "gateway", "start")
            assert code == 0 and "The gateway runs" in out, err
            pid = process_module.find_gateway_pid(HermesHome(home.hermes))
            assert pid
            try:
                assert (await hermes(home, "gateway", "start"))[0] == 75
                assert (await hermes(home, "gateway", "run"))[0] == 75
                code, out, _ = await hermes(home, "gateway", "status", "--json")
                assert code == 0
                told = json.loads(out)
                assert told["pid"] == pid and told["accounts"]["ntfy"]["platform"]
                assert (home.hermes / "run/gateway.sock").stat().st_mode & 0o777 == 0o600
                home.write_config({**(home.config or {}), "platforms": {}})
                code, out, _ = await hermes(home, "gateway", "reload")
                assert code == 0 and "ntfy" in out
            finally:
                code, out, err = await hermes(home, "gateway", "stop")
            assert code == 0 and "has ended" in out, err
            assert process_module.find_gateway_pid(HermesHome(home.hermes)) is None
            assert (await hermes(home, "gateway", "stop"))[1] == "No gateway runs.\n"
            code, out, _ = await hermes(home, "gateway", "status")
            assert code == 1 and "No gateway runs" in out
            code, out, _ = await hermes(home, "gateway", "logs")
            assert "began" in out and "ended" in out


async def test_a_gateway_that_failed_too_often_waits_and_can_be_ended() -> None:
    with TempHome() as home:
        starts = FailedStarts(home.hermes / "run")
        for _ in range(MAX_FAILED_STARTS):
            starts.record_start()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hermes", "gateway", "run"),
            cwd=home.cwd,
            env=home.environ,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        async with asyncio.timeout(60):
            assert b"failed to start 5 times" in await process.stdout.readline()
            process.terminate()
            assert await process.wait() == 0


async def test_what_cannot_start_says_why() -> None:
    with TempHome({"model": {"default": "m", "provider": "custom", "base_url": "http://127.0.0.1:9"}}) as home:
        code, _, err = await hermes(home, "gateway", "start")
        assert code == 1 and "exit code 78" in err and "No platform and no job is set up" in err


async def test_settings_that_are_read_anew_touch_only_what_changed() -> None:
    async with ScriptedServer([Say("one"), Say("two")]) as server, Fake() as kept, Fake() as other:
        with home_for(server, {"ntfy": kept}) as home:
            config = dict(home.config or {})
            async with in_process(home) as it:
                before = it.gateway.accounts["ntfy"]
                more = {"platform": "ntfy", "batch_seconds": 0.05, **other.options()}
                home.write_config({**config, "platforms": {**config["platforms"], "second": more}})  # type: ignore[dict-item]
                await it.gateway.reload_settings()
                assert it.gateway.accounts["ntfy"] is before
                assert await it.gateway.accounts["second"].wait_connected(60)
                await other.say("hello")
                await other.until(other.shown)
                (home.hermes / "config.yaml").write_text("platforms: [")
                assert "nothing was changed" in (await it.gateway.reload_settings()).said
                assert set(it.gateway.accounts) == {"ntfy", "second"}
                home.write_config({**config, "platforms": {"second": {**more, "batch_seconds": 0.06}}})
                await it.gateway.reload_settings()
                assert set(it.gateway.accounts) == {"second"}
                await other.say("again")
                await other.until(lambda: len(other.shown()) == 2)
        assert len(server.requests[1].messages) > len(server.requests[0].messages)


async def test_a_hangup_has_the_process_read_its_settings() -> None:
    async with ScriptedServer([]) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            async with served(home) as process:
                assert process.stdout is not None
                process.send_signal(signal.SIGHUP)
                async with asyncio.timeout(60):
                    while b"Reloaded." not in await process.stdout.readline():
                        pass
                process.terminate()
                async with asyncio.timeout(60):
                    assert await process.wait() == 0


async def test_measures_are_in_the_format_of_prometheus() -> None:
    async with ScriptedServer([Say("Hello back.")]) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            async with in_process(home) as it:
                await chat.say("hello")
                await chat.until(chat.shown)
                await it.gateway.outbox.wait_until_idle(60)
                await it.gateway.measure_backlog()
                text = it.gateway.metrics_text()
            lines = (home.hermes / "logs/gateway.log").read_text()
    assert 'hermes_account_state{account="ntfy",state="connected"} 1' in text
    assert 'hermes_turns_total{outcome="text_response"} 1' in text
    assert 'hermes_arrivals_total{account="ntfy"} 1' in text
    assert 'hermes_deliveries{account="ntfy",state="delivered"} 1' in text
    assert 'hermes_turn_seconds_bucket{le="+Inf"} 1' in text
    events = [json.loads(line)["event"] for line in lines.splitlines()]
    assert events.count("turn_ended") == 1 and events.count("sent") == 1
    assert "hello" not in lines.lower()


async def test_measures_are_served_to_who_may_ask() -> None:
    async with ScriptedServer([]) as server, Fake() as chat:
        token = "t" * 24
        more = {"gateway": {"metrics": "127.0.0.1:0", "metrics_token": "${METRICS}"}}
        with home_for(server, {"ntfy": chat}, more) as home:
            home.more["METRICS"] = token
            async with in_process(home) as it, aiohttp.ClientSession() as http:
                url = f"http://127.0.0.1:{it.gateway.metrics_port}"
                key = {"Authorization": f"Bearer {token}"}

                async def asked(path: str, headers: dict[str, str]) -> tuple[int, str]:
                    async with http.get(url + path, headers=headers) as answer:
                        assert "Access-Control-Allow-Origin" not in answer.headers
                        return answer.status, await answer.text()

                status, text = await asked("/metrics", key)
                assert status == 200 and 'hermes_account_state{account="ntfy"' in text
                status, text = await asked("/health", key)
                assert status == 200 and json.loads(text)["accounts"]["ntfy"]["state"] == "connected"
                assert (await asked("/metrics", {}))[0] == 401
                assert (await asked(f"/metrics?token={token}", {}))[0] == 401
                assert (await asked("/metrics", {**key, "Host": "evil.example"}))[0] == 403
                assert (await asked("/metrics", {**key, "Origin": "null"}))[0] == 403
                assert (await asked("/", key))[0] == 404


@pytest.mark.parametrize("address", ["0.0.0.0:0", "nonsense", "127.0.0.1:x"])
async def test_measures_are_not_served_to_everybody(address: str) -> None:
    async with ScriptedServer([]) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}, {"gateway": {"metrics": address}}) as home:
            async with in_process(home) as it:
                assert it.gateway.metrics_port == 0
                assert any("gateway.metrics" in line for line in it.lines)
                await chat.say("/help")
                await chat.until(chat.shown)  # the rest runs on


async def test_sending_from_a_script() -> None:
    async with ScriptedServer([]) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}, home="a-topic") as home:
            code, out, err = await hermes(home, "send", "for later")
            assert code == 75 and "No gateway runs" in out, err
            async with served(home):
                await chat.until(lambda: chat.text() == "for later")
                code, out, err = await hermes(home, "send", "--to", "ntfy:a-topic", "-", stdin=b"through it\n")
                assert code == 0 and "Delivered: ntfy:a-topic" in out, err
                await chat.until(lambda: "through it" in chat.text())
                code, _, err = await hermes(home, "send", "--to", "nobody:x", "hi")
                assert code == 1 and "No platform 'nobody' is set up" in err
            code, out, err = await hermes(home, "send", "--now", "at once")
            assert code == 0 and "Sent" in out, err
            assert "at once" in chat.text()
            assert (await hermes(home, "send", ""))[0] == 2
            code, out, _ = await hermes(home, "send", "--list", "--json")
            assert json.loads(out)[0] == {"target": "ntfy:a-topic", "name": "", "kind": "home"}


async def test_a_process_that_reads_nothing_gets_no_socket_of_ours() -> None:
    """The socket's folder and the socket are the person's alone; what is no frame cuts the wire and nothing else."""
    async with ScriptedServer([]) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            async with in_process(home) as it:
                path = home.hermes / "run" / "gateway.sock"
                assert path.parent.stat().st_mode & 0o777 == 0o700
                reader, writer = await asyncio.open_unix_connection(str(path))
                writer.write(b"GET / HTTP/1.1\r\n\r\n")
                async with asyncio.timeout(60):
                    assert await reader.read() == b""
                writer.close()
                assert it.gateway.health_report()["pid"] == os.getpid()


def test_nothing_needs_a_gateway_to_be_imported() -> None:
    code = "import sys, hermes.cli.commands.gateway\n"
    code += "sys.exit('hermes.gateway.run' in sys.modules or 'aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


def test_every_setting_of_accounts_is_in_the_document() -> None:
    text = (Path(__file__).parents[2] / "docs" / "gateway.md").read_text()
    for name in (*AccountSettings.__struct_fields__, *ChannelSettings.__struct_fields__):
        assert f"`{name}`" in text, name


def test_what_is_missing_after_a_command_that_may_fail_is_told() -> None:
    environ = {"PATH": os.defpath}
    plan = ServicePlan(commands=(("-false",), ("-cat", "/nothing/there"), ("true",)), losses={"false": "it ends"})
    assert execute_plan(plan, environ) == ["it ends"]
    assert execute_plan(ServicePlan(commands=(("-true",),), losses={"true": "it ends"}), environ) == []
    with pytest.raises(ServiceError, match="`false` failed"):
        execute_plan(ServicePlan(commands=(("false",),), losses={"false": "it ends"}), environ)


def test_a_service_of_the_machine_is_asked_by_the_machines_systemd(tmp_path: Path) -> None:
    """Each account's has a name of its own, which root and the account find alike."""
    home, units = HermesHome(tmp_path / ".hermes"), tmp_path / "units"
    units.mkdir()
    home.root.mkdir()
    made = [
        GatewayService(home, {"HOME": folder, "PATH": os.defpath}, kind, 60, machine_units=units)
        for folder, kind in ((str(tmp_path), ServiceKind.SYSTEMD), ("/root", ServiceKind.PLAIN))
    ]
    assert not any(one.installed for one in made)
    plan = made[0].plan_system_install()
    ((file, text),) = plan.writes
    assert plan.needs_root and not made[0].plan_install().needs_root
    assert f"User={made[0].owner.name}" in text and made[0].owner.name in file.name
    file.write_text(text)
    for one in made:
        assert one.installed and one.is_machine_service and one.file == file
        for asked in (one.plan_start(), one.plan_stop(), one.plan_uninstall()):
            assert asked.needs_root
            assert all(file.name in words and "--user" not in words for words in asked.commands)
        assert one.plan_uninstall().removes == (file,)
