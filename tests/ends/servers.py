"""Starts real servers on loopback, kills them, and starts them again."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import aiohttp

SECRET = "made-for-this-run"
START_SECONDS = 90.0


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Program:
    """A server in a process group of its own, which ends with the context."""

    def __init__(self, words: Sequence[str | Path], ready: Callable[[], Awaitable[bool]], log: Path) -> None:
        self._words = words
        self._ready = ready
        self._log = log
        self._process: Process | None = None

    async def start(self) -> None:
        """Start it, and wait until it answers."""
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._words, stdin=DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=self._log.parent
            )
        async with asyncio.timeout(START_SECONDS):
            while not await self._ready():
                if self._process.returncode is not None:
                    raise AssertionError(f"{self._words[0]} ended: {self._log.read_text()[-2000:]}")
                await asyncio.sleep(0.1)

    async def kill(self) -> None:
        """Kill it, and all that it has started."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    async def __aenter__(self) -> "Program":
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.kill()


def listens(port: int) -> Callable[[], Awaitable[bool]]:
    """Whether somebody answers at a port."""

    async def answers() -> bool:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        try:
            async with asyncio.timeout(2):
                return bool(await reader.readline())
        except (TimeoutError, OSError):
            return False
        finally:
            writer.transport.abort()

    return answers


async def _run(words: Sequence[str | Path], folder: Path) -> None:
    process = await asyncio.create_subprocess_exec(*words, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, cwd=folder)
    assert await process.wait() == 0, words


async def synapse(python: Path, folder: Path, port: int) -> Program:
    """A homeserver, `localhost`, with the users `bot` and `ann`, both with the password `pw`."""
    config = folder / "homeserver.yaml"
    make = ["-m", "synapse.app.homeserver", "--server-name", "localhost", "--config-path", config]
    await _run([python, *make, "--generate-config", "--report-stats=no", "--data-directory", folder], folder)
    often = "{per_second: 10000, burst_count: 10000}"
    config.write_text(
        f"""server_name: localhost
pid_file: {folder}/homeserver.pid
listeners:
  - port: {port}
    type: http
    tls: false
    bind_addresses: ['127.0.0.1']
    resources: [{{names: [client], compress: false}}]
database: {{name: sqlite3, args: {{database: {folder}/homeserver.db}}}}
log_config: {folder}/localhost.log.config
media_store_path: {folder}/media
registration_shared_secret: {SECRET}
macaroon_secret_key: {SECRET}
form_secret: {SECRET}
signing_key_path: {folder}/localhost.signing.key
report_stats: false
trusted_key_servers: []
enable_registration: false
rc_message: {often}
rc_login: {{address: {often}, account: {often}}}
"""
    )

    async def answers() -> bool:
        try:
            async with (
                aiohttp.ClientSession() as http,
                http.get(f"http://127.0.0.1:{port}/_matrix/client/versions") as it,
            ):
                return it.status == 200
        except aiohttp.ClientError:
            return False

    program = Program([python, "-m", "synapse.app.homeserver", "-c", config], answers, folder / "synapse.out")
    await program.start()
    try:
        register = python.parent / "register_new_matrix_user"
        for user in ("bot", "ann"):
            await _run(
                [register, "-u", user, "-p", "pw", "--no-admin", "-k", SECRET, f"http://127.0.0.1:{port}"], folder
            )
    except BaseException:
        await program.kill()
        raise
    return program


def dovecot(folder: Path, imap: int, lmtp: int) -> Program:
    """Mailboxes by name, all with the password `pw`."""
    config = folder / "dovecot.conf"
    config.write_text(
        f"""base_dir = {folder}/run
state_dir = {folder}/run
protocols = imap lmtp
listen = 127.0.0.1
ssl = no
disable_plaintext_auth = no
log_path = {folder}/dovecot.log
default_internal_user = root
default_login_user = dovenull
default_internal_group = root
mail_location = maildir:{folder}/mail/%n
first_valid_uid = 1
auth_mechanisms = plain login
passdb {{
  driver = static
  args = password=pw
}}
userdb {{
  driver = static
  args = uid=mail gid=mail home={folder}/mail/%n
}}
service imap-login {{
  inet_listener imap {{
    port = {imap}
  }}
  inet_listener imaps {{
    port = 0
  }}
  chroot =
}}
service lmtp {{
  user = root
  inet_listener lmtp {{
    address = 127.0.0.1
    port = {lmtp}
  }}
}}
service anvil {{
  chroot =
}}
protocol lmtp {{
  postmaster_address = root@localhost
}}
"""
    )
    mail = folder / "mail"
    mail.mkdir(exist_ok=True)
    mail.chmod(0o777)
    return Program(["/usr/sbin/dovecot", "-F", "-c", config], listens(imap), folder / "dovecot.out")


def opensmtpd(folder: Path, port: int, lmtp: int) -> Program:
    """Takes every mail and hands it to the mailboxes."""
    config = folder / "smtpd.conf"
    config.write_text(
        f'listen on 127.0.0.1 port {port}\naction "l" relay host "lmtp://127.0.0.1:{lmtp}"\n'
        'match from any for any action "l"\n'
    )
    return Program(["/usr/sbin/smtpd", "-d", "-f", config], listens(port), folder / "smtpd.out")


HOME_CONFIG = """homeassistant:
  name: Test
http:
  server_host: 127.0.0.1
  server_port: {port}
api:
input_boolean:
  lamp:
    name: Desk lamp
input_number:
  heat:
    name: Heat
    min: 5
    max: 30
shell_command:
  touch: "touch {folder}/touched"
"""


def answers_http(url: str) -> Callable[[], Awaitable[bool]]:
    """Whether a server answers a request, in whatever way."""

    async def answers() -> bool:
        try:
            async with aiohttp.ClientSession() as session, session.get(url):
                return True
        except aiohttp.ClientError:
            return False

    return answers


async def home_assistant(program: Path, folder: Path, port: int) -> Program:
    """A Home Assistant with a lamp and a heater, and the user `tester`, who is its owner."""
    (folder / "configuration.yaml").write_text(HOME_CONFIG.format(port=port, folder=folder))
    await _run([program, "--script", "auth", "-c", folder, "add", "tester", SECRET], folder)
    words = [program, "-c", folder, "--skip-pip"]
    return Program(words, answers_http(f"http://127.0.0.1:{port}/api/"), folder / "hass.out")


async def home_token(port: int) -> str:
    """Sign the user in as a browser does, and return a token."""
    base, client = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port}/"
    async with aiohttp.ClientSession() as session:
        begun = {"client_id": client, "handler": ["homeassistant", None], "redirect_uri": client}
        async with session.post(f"{base}/auth/login_flow", json=begun) as answer:
            flow = (await answer.json())["flow_id"]
        words = {"client_id": client, "username": "tester", "password": SECRET}
        async with session.post(f"{base}/auth/login_flow/{flow}", json=words) as answer:
            code = (await answer.json())["result"]
        form = {"client_id": client, "grant_type": "authorization_code", "code": code}
        async with session.post(f"{base}/auth/token", data=form) as answer:
            return str((await answer.json())["access_token"])


def tell(line: str) -> None:
    """Say what was measured."""
    sys.stderr.write(f"  {line}\n")
