"""Runs commands elsewhere, each through a client program on this machine: what ssh and containers share.

The shell scripts of ours that run on the remote side are sent with each command. They need a POSIX shell, /proc as on
Linux, awk, grep, sort, base64, tr and env; bash runs commands where there is one. What they report stands between a
command's own output as records: `\\x1e`, the run's mark, `:`, a letter, data, `\\x1f`. The mark is random, so no
output is taken for a record by chance, and no record is trusted without a check. A command that looks for its mark can
forge what is reported of itself, as it can anywhere: its exit code, its folder, its variables.

Letters: `R` the script may be sent (on a terminal only), `B` the environment before anything was laid over it (base64),
`P` it runs (process id, and that of the script above it), `F` its folder cannot be entered, `S` the state that its
shell left (base64), `X` it has ended (code, number of processes left), `G` nothing is left of it, `L` something is.
"""

import asyncio
import contextlib
import itertools
import re
import secrets
import shlex
import signal
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from hermes.core.errors import ToolError
from hermes.execution.base import (
    CommandExit,
    FinalShellState,
    OutputSink,
    ShellCommand,
    StopOutcome,
    normalize_exit_code,
)
from hermes.execution.local import QUIET_VARIABLES, LocalBackend, LocalCommand, parse_shell_state
from hermes.util.text import strip_control_characters

_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_FIND_FUNCTIONS = r"""
say() { printf '\036%s:%s\037' "$mark" "$1"; }
found() {
  { grep -lszF "HERMES_RUN=$1" /proc/[0-9]*/environ; cat /proc/[0-9]*/stat; } 2>/dev/null |
  awk -v top="$2" -v boot="$3" '
    /^\/proc/ { gsub(/[^0-9]/, ""); hit[$0] = 1; next }
    { pid = $1; sub(/^.*\) /, ""); if ($1 == "Z" || $1 == "X") next
      up[pid] = $2
      if (pid == top || $3 == top || $4 == top || ($4 == boot && $3 != boot)) hit[pid] = 1 }
    END { do { more = 0; for (p in up) if (!(p in hit) && (up[p] in hit)) { hit[p] = 1; more = 1 } } while (more)
      for (p in hit) if (p in up) print p }' | sort -n
}
"""
"""Shell functions. `found MARK TOP SCRIPT` lists the live processes of a run: those with its mark in the environment
they began with; the group and session of its shell `TOP`; the other groups in the session of the script above it; and
all descendants of those. -1 stands for no process. The oldest come first: a shell whose child is killed before itself
would go on, and might end well. Fields: proc(5), /proc/pid/stat.
"""

_END_BODY = r"""
now() { read -r time rest </proc/uptime; time=${time%.*}${time#*.}; }
gone() { pids=$(found "$mark" "$top" "$boot"); [ -z "$pids" ] && { say G; exit 0; }; }
trap '' HUP
for step in $steps; do
  gone; kill -"${step%:*}" $pids 2>/dev/null
  now; end=$((time + ${step#*:}))
  while gone; now; [ "$time" -lt "$end" ]; do
    [ "${step%:*}" = KILL ] && kill -KILL $pids 2>/dev/null
    sleep 0.03
  done
done
say L
"""

_STANDBY_BODY = r"""
trap '' HUP INT TERM QUIT
say H
while IFS= read -r line; do [ "$line" = bye ] && exit 0; done
tries=0
while [ "$tries" -lt 100 ]; do
  pids=$(found "$session" -1 -1)
  [ -z "$pids" ] && exit 0
  kill -KILL $pids 2>/dev/null
  sleep 0.05; tries=$((tries + 1))
done
"""

_RUN_ON_TERMINAL = "( body ); code=$?"
_RUN_IN_GROUP = rf"""
if [ -n "$BASH_VERSION" ]; then
  set -m; body & child=$!
  while wait "$child"; code=$?; [ "$code" -gt 128 ] && kill -0 "$child"; do sleep 0.1; done
  set +m
else {_RUN_ON_TERMINAL}; fi
"""
"""Runs the command in a group of its own, where the shell can do that. Not in its foreground: bash would give up the
script when the command dies of an INT. A wait that is over too early, by a signal or a stopped command, is repeated.
"""

_REPORT_EXIT = r"""
left() { found "$mark" -1 "$$" | wc -l | tr -dc 0-9; }
count=$(left)
[ "$count" = 0 ] || { sleep 0.1; count=$(left); }
say "X$code $count"
"""


def build_run_script(
    command: ShellCommand, cwd: str, mark: str, *, environment: Mapping[str, str], report_base: bool
) -> str:
    """Build the script that runs a command and reports its process id, how it ended and
    the state that its shell left.
    """
    lines = [f"mark={mark}", "trap : INT TERM HUP QUIT", _FIND_FUNCTIONS, "shell=${BASH:-sh}"]
    note = f"/tmp/hermes-{mark}"  # noqa: S108 - nobody can know the name before
    if report_base:
        lines.append(r"""printf '\036%s:B' "$mark"; env -0 | base64 | tr -d '\n'; printf '\037'""")
    text = command.text
    if command.report_state:
        lines.append(f"(umask 077; : >{note})")
        report = f'{{ pwd; printf "\\0"; env -0; }} >{note} 2>/dev/null'
        text = f"trap '{report}' EXIT; {text}"
    run = f"""printf '\\036{mark}:P%s %s\\037' "$$" "$PPID"; exec "$0" -c "$1" """
    variables = {name: value for name, value in environment.items() if _VARIABLE_NAME.fullmatch(name)}
    unset_names = [name for name in command.unset if _VARIABLE_NAME.fullmatch(name)]
    lines += [
        "exec 2>/dev/null",
        f"body() {{ cd -- {shlex.quote(cwd)} || {{ say F; exit 125; }}",
        *(f"unset -v {name}" for name in unset_names),
        *(f"export {name}={shlex.quote(value)}" for name, value in variables.items()),
        f'export HERMES_RUN={mark}; exec 2>&1 "$shell" -c {shlex.quote(run)} "$shell" {shlex.quote(text)}; }}',
        # On a terminal the foreground group is that of this script: another one could not read from it.
        _RUN_ON_TERMINAL if command.pty else _RUN_IN_GROUP,
    ]
    if command.report_state:
        report_state = rf"""printf '\036%s:S' "$mark"; base64 <{note} | tr -d '\n'; printf '\037'"""
        lines.append(f"[ ! -s {note} ] || {{ {report_state}; }}; rm -f {note}")
    return "\n".join([*lines, _REPORT_EXIT])


def build_end_script(mark: str, shell_pid: int, script_pid: int, *, at_once: bool) -> str:
    """Build the script that ends a run: INT, TERM after 1.5 s, KILL after 3 s; or KILL alone."""
    steps = "KILL:100" if at_once else "INT:150 TERM:150 KILL:60"
    return f"mark={mark}; top={shell_pid}; boot={script_pid}; steps='{steps}'\n{_FIND_FUNCTIONS}{_END_BODY}"


def build_standby_script(session: str) -> str:
    """Build the script that stands by while the connection holds, and ends the session's runs when it breaks."""
    return f"session={session}. mark={session}\n{_FIND_FUNCTIONS}{_STANDBY_BODY}"


def frame_script(script: str, mark: str) -> str:
    """Frame a script of ours so that what it prints and how it ends can be told from other output."""
    begin, over = f"printf '\\036{mark}:P0 0\\037'", f"printf '\\036{mark}:X%s 0\\037' $?"
    return f"{begin}\n(\nexport HERMES_RUN={mark}\n{script}\n) 2>/dev/null\n{over}"


def build_loader(mark: str = "") -> str:
    """Build the script that reads another one, a line of base64, from its input, and becomes that.

    On a terminal, where a `mark` is given, it first makes sure that a long line is taken, and says so (`R`).
    """
    become = 'IFS= read -r line; eval "$(printf %s "$line" | base64 -d)"'
    if not mark:
        return become
    prepare = f"stty -icanon -echo min 1 time 0 2>/dev/null; printf '\\036{mark}:R\\037'"
    return f"{prepare}; {become.replace(';', '; stty icanon echo 2>/dev/null;', 1)}"


def encode_script_line(script: str) -> bytes:
    """Encode the script as the line that the loader reads."""
    return b64encode(script.encode("utf-8", "surrogateescape")) + b"\n"


def encode_script_argument(script: str) -> str:
    """Encode the script as an argument for `sh -c`, without a character that any login shell would interpret."""
    data = b64encode(script.encode("utf-8", "surrogateescape")).decode()
    return f'exec "$(command -v bash || command -v sh)" -c "$(printf %s {data} | base64 -d)"'


_MAX_RECORD = 6 * 1024 * 1024
"""The most bytes of a record; anything longer is no record."""


_MAX_EARLY = 4_000


_NUMBERS = re.compile(rb"([0-9]{1,9}) ([0-9]{1,9})")


class RecordReader:
    """Separates the records of the remote side from the output. `take_record` gets a letter and its data."""

    def __init__(self, mark: str, sink: OutputSink, take_record: Callable[[str, bytes], None]) -> None:
        self._begin = b"\x1e" + mark.encode() + b":"
        self._sink = sink
        self._take_record = take_record
        self._buffer = bytearray()
        self._searched = 0
        """How much of a record that has begun was searched for its end."""

    def feed(self, data: bytes) -> None:
        """Take output as it arrives; what may be the beginning of a record is held back."""
        self._buffer += data
        while (at := self._buffer.find(self._begin)) >= 0:
            end = self._buffer.find(b"\x1f", at + self._searched)
            if end < 0:
                self._searched = len(self._buffer) - at
                break
            self._pass_on(at)
            record = bytes(self._buffer[len(self._begin) : end - at])
            del self._buffer[: end - at + 1]
            self._searched = 0
            self._take_record(record[:1].decode("ascii", "replace"), record[1:])
        if at < 0:
            at = self._buffer.rfind(b"\x1e", max(0, len(self._buffer) - len(self._begin) + 1))
            if at < 0 or not self._begin.startswith(self._buffer[at:]):
                at = len(self._buffer)
        elif len(self._buffer) - at > _MAX_RECORD:
            at, self._searched = len(self._buffer), 0
        self._pass_on(at)

    def flush(self) -> None:
        """Pass on what was held back: there is no more output, so it was no record."""
        self._searched = 0
        self._pass_on(len(self._buffer))

    def _pass_on(self, size: int) -> None:
        """Pass on that many bytes of the buffer."""
        if size:
            data = bytes(self._buffer[:size])
            del self._buffer[:size]
            self._sink(data)


class EarlyOutput:
    """The last of what was printed before a run began: it tells why the run did not begin."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        """Take more output."""
        self._data += data[-_MAX_EARLY:]
        del self._data[:-_MAX_EARLY]

    def to_text(self) -> str:
        """Return the output, safe for a person's eyes and a terminal."""
        return strip_control_characters(self._data.decode("utf-8", "replace")).strip()


def parse_two_numbers(data: bytes) -> tuple[int, int]:
    """Parse the two whole numbers of a record. Raises ValueError for anything else."""
    found = _NUMBERS.fullmatch(data)
    if found is None:
        raise ValueError(data[:80])
    return int(found[1]), int(found[2])


_CONNECT_SECONDS = 30.0
"""Seconds that the remote side may take to answer."""
_GRACE_SECONDS = 0.1
"""Seconds to wait for the end of the output after the remote side has reported the command's end."""
_STOP_SECONDS = 5.0
"""Seconds that the remote side may take to end a command, and to say so."""
_MAX_SCRIPT_OUTPUT = 1_000_000
"""Bytes that a short script of ours may print, unless its caller says otherwise."""
_WRITE_SIZE = 1 << 18
_REMOTE_VARIABLES = frozenset({"HERMES_RUN", "SSH_TTY"})

_First = TypeVar("_First")
_Second = TypeVar("_Second")

BuildClientArguments = Callable[[str, bool, bool], Sequence[str]]
"""Builds the client's arguments that run a script remotely, given whether it has input and whether it has a terminal.
"""


class ClientProgram:
    """Runs a client program in the place of a shell; it confines nothing."""

    folder = "/"
    variables: Mapping[str, str] = {}
    temporary_folder: str | None = None
    handles: Sequence[int] = ()
    namespaces: Sequence[int] = ()
    order_index: int | None = None

    def __init__(self, arguments: Sequence[str]) -> None:
        self._arguments = tuple(arguments)

    def wrap_shell(
        self, shell: Sequence[str], environment: Mapping[str, str], handles: Sequence[int]
    ) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """Return the client with its own variables, not with a command's."""
        return self._arguments, environment

    def shell_arguments(self, text: str, terminal: str) -> tuple[str, ...]:
        """Return nothing: no part of the command runs on this machine."""
        return ()


class RemoteShell:
    """Runs commands at the remote end of a client program.

    `local` runs the client, `build_arguments` says how, `where` names the remote side to the person.
    `to_remote` and `to_local` turn folders of this machine into those there and back.
    """

    def __init__(
        self,
        local: LocalBackend,
        build_arguments: BuildClientArguments,
        where: str,
        *,
        to_remote: Callable[[str], str] = str,
        to_local: Callable[[str], str] = str,
    ) -> None:
        self.local = local
        self.build_arguments = build_arguments
        self.where = where
        self.to_remote = to_remote
        self.to_local = to_local
        self.base_environment: dict[str, str] | None = None
        """The environment there, before anything of ours is laid over it."""
        self.missing_folders: set[str] = set()
        """Folders that a command was to begin in, and that did not exist."""
        self.session_mark = secrets.token_hex(16)
        self._numbers = itertools.count(1)
        self._standby: LocalCommand | None = None
        self._running: list[RemoteCommand] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def next_mark(self) -> str:
        """Return a mark for one run. It ends in a dot, so that none is the beginning of another."""
        return f"{self.session_mark}.{next(self._numbers)}."

    @property
    def is_connected(self) -> bool:
        """Whether the standby script on the remote side runs, as far as is known."""
        return self._standby is not None and not self._standby.has_ended

    @property
    def is_busy(self) -> bool:
        """Whether a command runs, or left something running."""
        return any(not one.is_over for one in self._running)

    async def start_standby(
        self, arguments: Callable[[str], Sequence[str]], ready: Callable[[], bool] = lambda: True
    ) -> None:
        """Start the script that stands by on the remote side while this process lives.

        Raises `ToolError` with what the client printed.
        """
        early = EarlyOutput()
        has_begun = asyncio.Event()
        records = RecordReader(self.session_mark, early.feed, lambda letter, data: has_begun.set())
        client = ClientProgram(arguments(encode_script_argument(build_standby_script(self.session_mark))))
        running = await self.local.start(ShellCommand(text="", cwd="/", interactive=True), records.feed, client)
        ending = asyncio.ensure_future(running.wait())
        waiting = asyncio.ensure_future(has_begun.wait())
        try:
            await _wait_first(ending, waiting, _CONNECT_SECONDS)
            if not has_begun.is_set() or not ready():
                raise ToolError(f"{self.where} cannot be used: {early.to_text() or 'it does not answer'}")
            if self._standby is not None:
                self.start_background(self._standby.stop(), "what a lost keeper left")
            self._standby = running
        finally:
            waiting.cancel()
            ending.cancel()
            if self._standby is not running:
                await running.stop()

    async def start(
        self, command: ShellCommand, sink: OutputSink, after: Callable[[], Awaitable[Sequence[str]]] | None = None
    ) -> "RemoteCommand":
        """Start a command there. `after` runs once it has ended, before the end is reported; it returns
        lines to show.
        """
        if "\0" in command.text:
            raise ToolError("The command holds a null character. Leave it out.")
        mark = self.next_mark()
        script = build_run_script(
            command,
            self.to_remote(command.cwd),
            mark,
            environment={**command.environment, **QUIET_VARIABLES, "TERM": "xterm" if command.pty else "dumb"},
            report_base=command.report_state and self.base_environment is None,
        )
        running = RemoteCommand(self, mark, sink, after)
        loader_script = encode_script_argument(build_loader(mark if command.pty else ""))
        client = ClientProgram(self.build_arguments(loader_script, True, command.pty))
        # The script goes over the input: what stands in arguments is seen in the lists of processes of both sides.
        order = ShellCommand(text="", cwd="/", interactive=True, pty=command.pty)
        try:
            line = encode_script_line(script)
        except UnicodeEncodeError:
            raise ToolError("The command holds half a character (a lone surrogate). Write it again.") from None
        await running.begin(await self.local.start(order, running.feed, client), command, line)
        self._running = [one for one in self._running if not one.is_over]
        self._running.append(running)
        return running

    async def run_script(
        self,
        script: str,
        sink: OutputSink,
        source: bytes = b"",
        *,
        seconds: float = 60.0,
        max_output: int = _MAX_SCRIPT_OUTPUT,
    ) -> int:
        """Run a short script of ours there; return its exit code. Raises `ToolError` when the remote side does not run
        it.

        It may take this many `seconds`, and print at most `max_output` bytes. What is left of one that was interrupted
        is ended.
        """
        answer, mark = _ScriptOutput(sink, max_output), self.next_mark()
        try:
            return await self._run_script(script, mark, answer, source, seconds)
        finally:
            if answer.code is None and self.is_connected:
                self.start_background(self.end_run(mark, -1, -1, at_once=True), "what is left of a script")

    async def _run_script(self, script: str, mark: str, answer: "_ScriptOutput", source: bytes, seconds: float) -> int:
        client = ClientProgram(
            self.build_arguments(encode_script_argument(frame_script(script, mark)), bool(source), False)
        )
        order = ShellCommand(text="", cwd="/", interactive=bool(source))
        running = await self.local.start(order, RecordReader(mark, answer.feed, answer.take_record).feed, client)
        ending = asyncio.ensure_future(running.wait())
        try:
            async with asyncio.timeout(seconds):
                if source:
                    with contextlib.suppress(ToolError):  # it ended early: its code tells
                        await _write_in_pieces(running, source)
                    running.close_input()
                await _wait_first(ending, answer.overflow, None)
        except TimeoutError:
            raise ToolError(f"{self.where} does not answer.") from None
        finally:
            ending.cancel()
            await running.stop()
        if answer.overflow.done():
            raise ToolError(f"{self.where} sends more than it was asked for: over {answer.max_output} bytes.")
        if answer.code is None:
            raise ToolError(
                f"{self.where} cannot be used: {answer.early_output.to_text() or 'the connection was lost'}"
            )
        return answer.code

    async def end_run(self, mark: str, shell_pid: int, script_pid: int, *, at_once: bool = False) -> StopOutcome:
        """Have the remote side end a run, and confirm it."""
        output = bytearray()
        script = build_end_script(mark, shell_pid, script_pid, at_once=at_once)
        with contextlib.suppress(ToolError):
            await self._run_script(
                script, self.next_mark(), _ScriptOutput(output.extend, _MAX_SCRIPT_OUTPUT), b"", _STOP_SECONDS
            )
        return StopOutcome.GONE if b"\x1e" + mark.encode() + b":G\x1f" in output else StopOutcome.UNCERTAIN

    def start_background(self, work: Awaitable[object], name: str) -> asyncio.Task[None]:
        """Start work that nobody waits for; it is over when `close` has returned."""

        async def wait_done() -> None:
            await work

        task = asyncio.create_task(wait_done(), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """End running commands, and release the remote side."""
        await asyncio.gather(*(one.kill() for one in self._running if not one.is_over))
        self._running.clear()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_STOP_SECONDS)
        for task in self._tasks:
            task.cancel()
        keeper, self._standby = self._standby, None
        if keeper is not None:
            with contextlib.suppress(ToolError):
                await keeper.write(b"bye\n")
            keeper.close_input()
            try:
                async with asyncio.timeout(_STOP_SECONDS):
                    await keeper.wait()
            except TimeoutError:
                pass
            finally:
                await keeper.stop()
        await self.local.close()


class RemoteCommand:
    """A command that runs elsewhere."""

    contacted_hosts: None = None
    """None: nobody observes what it reaches."""

    def __init__(
        self, remote: RemoteShell, mark: str, sink: OutputSink, after: Callable[[], Awaitable[Sequence[str]]] | None
    ) -> None:
        self._remote = remote
        self._mark = mark
        self._sink = sink
        self._after = after
        self._records = RecordReader(mark, self._pass_output, self._take_record)
        loop = asyncio.get_running_loop()
        self._begin_future: asyncio.Future[bool] = loop.create_future()
        self._report_future: asyncio.Future[tuple[int, int]] = loop.create_future()
        self._exit_future: asyncio.Future[CommandExit] = loop.create_future()
        self._ready_future: asyncio.Future[None] = loop.create_future()
        self._early_output = EarlyOutput()
        self._pids = (-1, -1)
        self._state: FinalShellState | None = None
        self._is_gone = False
        self._client: LocalCommand | None = None
        self._is_interactive = False

    @property
    def pid(self) -> int:
        """The process id on the machine where it runs, which is also its process group where bash runs it."""
        return self._pids[0]

    @property
    def is_over(self) -> bool:
        """Whether its end has been reported, and nothing is known to be left of it."""
        return self._is_gone or (self._exit_future.done() and not self._exit_future.result().left_running)

    def feed(self, data: bytes) -> None:
        """Take what the client prints."""
        if not self._exit_future.done():
            self._records.feed(data)

    async def begin(self, client: LocalCommand, command: ShellCommand, line: bytes) -> None:
        """Send the script, and wait until the remote side runs it. Raises `ToolError` when it does not."""
        self._client = client
        ending = asyncio.ensure_future(client.wait())
        try:
            with contextlib.suppress(TimeoutError, ToolError):  # what it said instead is told below
                async with asyncio.timeout(_CONNECT_SECONDS):
                    if command.pty:
                        await _wait_first(ending, self._ready_future, None)
                    await _write_in_pieces(client, line)
            if not command.interactive and not command.pty:
                client.close_input()
            await _wait_first(ending, self._begin_future, _CONNECT_SECONDS)
            self._check_begun(command.cwd)
        except BaseException:
            ending.cancel()
            self._remote.start_background(self._abandon_start(client), "abandoned command")
            raise
        self._remote.missing_folders.discard(command.cwd)
        self._is_interactive = command.interactive
        self._remote.start_background(self._wait_and_report(client, ending), "command elsewhere")

    async def wait(self) -> CommandExit:
        """Wait for its end, the last of its output, and the work that follows each command."""
        return await asyncio.shield(self._exit_future)

    async def stop(self) -> StopOutcome:
        """Have the remote side end the whole tree. Cancelling this has it killed at once."""
        if self.is_over:
            return StopOutcome.GONE
        try:
            stopped = await self._remote.end_run(self._mark, *self._target_pids())
        except asyncio.CancelledError:
            self._remote.start_background(self.kill(), "kill of a command elsewhere")
            raise
        return await self._finish_stop(stopped)

    async def kill(self) -> StopOutcome:
        """Have it killed at once."""
        return await self._finish_stop(await self._remote.end_run(self._mark, *self._target_pids(), at_once=True))

    async def write(self, data: bytes) -> None:
        """Send input."""
        if self._exit_future.done() or self._client is None or not self._is_interactive:
            raise ToolError("Its input is closed.")
        await self._client.write(data)

    def close_input(self) -> None:
        """Signal the end of input."""
        if self._client is not None and not self._exit_future.done():
            self._client.close_input()

    def _check_begun(self, cwd: str) -> None:
        if not self._begin_future.done():
            raise ToolError(
                f"{self._remote.where} cannot be used: {self._early_output.to_text() or 'it does not answer'}"
            )
        if not self._begin_future.result():
            self._remote.missing_folders.add(cwd)
            raise ToolError(f"The folder {cwd} does not exist there. Give a workdir that does.")

    def _target_pids(self) -> tuple[int, int]:
        """Return the process ids to end; those of an ended command may be somebody else's by now."""
        return (-1, -1) if self._report_future.done() else self._pids

    async def _finish_stop(self, stopped: StopOutcome) -> StopOutcome:
        self._is_gone = stopped is StopOutcome.GONE
        if self._is_gone:
            await asyncio.wait({self._exit_future}, timeout=0.2)
        if self._client is not None and not self._exit_future.done():
            self._remote.start_background(self._client.stop(), "client of a stopped command")
        return stopped

    async def _abandon_start(self, client: LocalCommand) -> None:
        if self._pids[0] > 0:
            await self._remote.end_run(self._mark, *self._target_pids(), at_once=True)
        await client.stop()

    async def _wait_and_report(self, client: LocalCommand, ending: "asyncio.Future[CommandExit]") -> None:
        """Wait for the end, and report it."""
        await _wait_first(ending, self._report_future, None)
        if not ending.done():
            await asyncio.wait({ending}, timeout=_GRACE_SECONDS)
        self._records.flush()
        if self._report_future.done():
            code, left = self._report_future.result()
        elif self._is_gone:
            code, left = -signal.SIGKILL, 0
        else:
            self._sink(f"\n[{self._remote.where}: the connection was lost; the command may still run]\n".encode())
            code, left = -signal.SIGHUP, 1
        try:
            await self._run_after()
        finally:  # whatever becomes of that, the one who waits for the command hears of its end
            self._exit_future.set_result(CommandExit(code=code, state=self._state, left_running=bool(left)))
        if ending.done():
            return
        ending.cancel()
        await client.stop()

    async def _run_after(self) -> None:
        if self._after is None:
            return
        try:
            lines = await self._after()
        except (ToolError, OSError) as error:
            lines = [str(error)]
        for line in lines:
            self._sink(f"\n[{line}]\n".encode("utf-8", "replace"))

    def _pass_output(self, data: bytes) -> None:
        if self._begin_future.done():
            self._sink(data)
        else:
            self._early_output.feed(data)

    def _take_record(self, letter: str, data: bytes) -> None:
        """Take a record. An invalid one, which only a remote side that lies sends, is ignored."""
        with contextlib.suppress(ValueError):
            self._apply_record(letter, data)

    def _apply_record(self, letter: str, data: bytes) -> None:
        if letter == "R" and not self._ready_future.done():
            self._ready_future.set_result(None)
        elif letter in ("P", "F"):
            self._record_begin(letter, data)
        elif letter == "B":
            block = b64decode(data).decode("utf-8", "surrogateescape")
            self._remote.base_environment = {
                name: value for name, _, value in (one.partition("=") for one in block.split("\0")) if name
            }
        elif letter == "S" and self._remote.base_environment is not None:
            self._state = self._parse_state(data)
        elif letter == "X" and not self._report_future.done():
            code, left = parse_two_numbers(data)
            self._report_future.set_result((normalize_exit_code(code & 0xFF), left))

    def _record_begin(self, letter: str, data: bytes) -> None:
        if self._begin_future.done():
            return
        if letter == "P":
            self._pids = parse_two_numbers(data)
        self._begin_future.set_result(letter == "P")

    def _parse_state(self, data: bytes) -> FinalShellState | None:
        state = parse_shell_state(b64decode(data), self._remote.base_environment or {})
        if state is None:
            return None
        return FinalShellState(
            cwd=self._remote.to_local(state.cwd),
            environment={name: value for name, value in state.environment.items() if name not in _REMOTE_VARIABLES},
            unset=state.unset - _REMOTE_VARIABLES,
        )


class _ScriptOutput:
    """The output of a short script of ours, up to a limit, and its exit code."""

    def __init__(self, sink: OutputSink, max_output: int) -> None:
        self.early_output = EarlyOutput()
        self.code: int | None = None
        self.overflow: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sink = sink
        self.max_output = self._bytes_left = max_output
        self._has_begun = False

    def feed(self, data: bytes) -> None:
        """Take output."""
        if not self._has_begun:
            self.early_output.feed(data)
            return
        self._bytes_left -= len(data)
        if self._bytes_left >= 0:
            self._sink(data)
        elif not self.overflow.done():
            self.overflow.set_result(None)

    def take_record(self, letter: str, data: bytes) -> None:
        """Take a record."""
        self._has_begun = True
        if letter == "X":
            with contextlib.suppress(ValueError):
                self.code = parse_two_numbers(data)[0]


async def _write_in_pieces(running: LocalCommand, data: bytes) -> None:
    """Send much data in pieces: what is left of a piece is copied whenever a part of it was taken."""
    for at in range(0, len(data), _WRITE_SIZE):
        await running.write(data[at : at + _WRITE_SIZE])


async def _wait_first(one: asyncio.Future[_First], other: asyncio.Future[_Second], seconds: float | None) -> None:
    """Wait until one of two futures is done; neither is cancelled by that."""
    both: set[asyncio.Future[_First] | asyncio.Future[_Second]] = {one, other}
    await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
