"""The chat as a person meets it, in a real pseudo-terminal: `python -m bench.terminal [start|stream|open]`.

start   from Enter to the drawn prompt, and CPU from there to the first token of a scripted model
stream  a long streamed answer while somebody types: input latency (byte written to byte shown), CPU a token, memory
open    a session of 5,000 messages, to the prompt
"""

import argparse
import asyncio
import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from hermes.testing.home import TempHome

ROOT = Path(__file__).resolve().parent.parent
PROMPT = "›".encode()


class Terminal:
    """A program on a pseudo-terminal of its own."""

    def __init__(
        self,
        home: TempHome,
        *arguments: str,
        rows: int = 40,
        columns: int = 120,
        command: tuple[str, ...] = (),
        more: Mapping[str, str] | None = None,
    ) -> None:
        self.began = time.perf_counter()
        self.text = b""
        pid, self.master = pty.fork()
        if pid == 0:
            os.chdir(home.cwd)
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            environ = {**home.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT), **(more or {})}
            whole = [*(command or (sys.executable, "-m", "hermes")), *arguments]
            os.execve(whole[0], whole, environ)
        self.pid = pid
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds: float) -> bytes:
        """What it shows within so many seconds, or as soon as it shows something."""
        ready, _, _ = select.select([self.master], [], [], max(seconds, 0))
        if not ready:
            return b""
        with contextlib.suppress(OSError):
            data = os.read(self.master, 1 << 16)
            self.text += data
            return data
        return b""

    def until(self, text: bytes, count: int = 1, seconds: float = 30.0) -> float:
        """Seconds since it was started until it has shown something `count` times."""
        end = time.perf_counter() + seconds
        while self.text.count(text) < count:
            if time.perf_counter() > end:
                raise TimeoutError(f"{text!r} is not shown: {self.text[-2000:]!r}")
            self.read(0.05)
        return time.perf_counter() - self.began

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    @property
    def cpu(self) -> float:
        """Seconds of CPU that all of its threads have used."""
        total = 0
        for task in os.listdir(f"/proc/{self.pid}/task"):
            total += int(Path(f"/proc/{self.pid}/task/{task}/schedstat").read_text().split()[0])
        return total / 1e9

    @property
    def memory(self) -> float:
        """Resident megabytes."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def close(self) -> None:
        os.kill(self.pid, signal.SIGTERM)
        end = time.perf_counter() + 5
        while os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            self.read(0.05)
            if time.perf_counter() > end:
                os.kill(self.pid, signal.SIGKILL)
        os.close(self.master)


@contextlib.contextmanager
def served(replies: list[dict[str, object]]) -> Iterator[str]:
    """A scripted server in a process of its own; its URL."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as script:
        json.dump(replies, script)
        script.flush()
        command = [sys.executable, "-m", "hermes.testing", "--script", script.name, "--until-eof"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True)
        assert process.stdout is not None and process.stdin is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()
            process.wait(10)


def answer(tokens: int) -> str:
    """Prose, nested lists, a table and code, of about so many tokens of four characters."""
    blocks = []
    size = number = 0
    while size < tokens * 4:
        number += 1
        blocks.append(_BLOCK.format(n=number))
        size += len(blocks[-1])
    return "".join(blocks)


_BLOCK = """\
## Part {n}: what the agent found

It looked at the **whole folder** and found `module_{n}.py`, which calls [the service](https://example.com/{n}) in
a loop; every call opens a connection of its own, which takes most of the time. 第{n}部分说明了原因。

- the first thing to do
  - measure with `make bench`, three times
  - compare with the version before
- the second thing
  1. keep one connection open
  2. close it in the end

| file | lines | time |
|---|---:|---:|
| module_{n}.py | {n} | 12.5 ms |
| service_{n}.py | 2{n} | 3.1 ms |

```python
async def fetch_{n}(client: Client, names: list[str]) -> dict[str, bytes]:
    found = {{}}
    async with client.connected() as line:
        for name in names:  # one connection for all
            found[name] = await line.get(f"/{n}/{{name}}")
    return found
```

"""


def start(repeat: int) -> None:
    """From Enter to the prompt, and from there to the first token."""
    rows = []
    for _ in range(repeat):
        with served([{"reply": "say", "text": "tokenword"}]) as url, TempHome.for_server(url) as home:
            terminal = Terminal(home)
            prompt = terminal.until(PROMPT)
            drawn = terminal.cpu
            terminal.type("hi\r")
            token = terminal.until(b"tokenword")
            rows.append((prompt, drawn, token, terminal.cpu - drawn))
            terminal.close()
    names = ("to the prompt, wall", "to the prompt, CPU", "to the first token, wall", "CPU from prompt to token")
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        print(f"{name:<28} median {statistics.median(values) * 1e3:6.0f} ms, worst {max(values) * 1e3:6.0f} ms")


def stream(tokens: int, pace: float, every: float) -> None:
    """Type while a long answer comes; every key is a letter that stands nowhere else."""
    text = answer(tokens)
    reply = {"reply": "say", "text": text, "chunk": 4, "delivery": {"pace": pace}}
    with served([{"reply": "say", "text": "ready"}, reply]) as url, TempHome.for_server(url) as home:
        terminal = Terminal(home)
        terminal.until(PROMPT)
        terminal.type("hi\r")
        terminal.until(b"ready")
        time.sleep(1)
        terminal.read(0.2)
        before, memory = terminal.cpu, terminal.memory
        terminal.type("go\r")
        latencies, shares, number = [], [], 0
        last = f"Part {text.count('## Part')}:".encode()
        began = time.perf_counter()
        while last not in terminal.text and time.perf_counter() - began < 300:
            letter = chr(0x2C00 + number % 0x5F)
            number += 1
            marker = letter.encode()
            terminal.text = terminal.text[-20_000:]
            fresh = b""
            typed = time.perf_counter()
            terminal.type(letter)
            while marker not in fresh:
                fresh = fresh[-4:] + terminal.read(0.01)
                if time.perf_counter() - typed > 5:
                    raise TimeoutError("a letter was not shown")
            latencies.append(time.perf_counter() - typed)
            if number % 40 == 0:
                terminal.type("\x15")
            if number % 50 == 0:
                shares.append(terminal.memory)
            pause = typed + every
            while time.perf_counter() < pause:
                terminal.read(pause - time.perf_counter())
        wall = time.perf_counter() - began
        time.sleep(0.5)
        terminal.read(0.5)
        used = terminal.cpu - before
        count = len(text) / 4
        latencies.sort()
        p99 = latencies[int(len(latencies) * 0.99)]
        print(f"{count:,.0f} tokens in {wall:.1f} s, {len(latencies)} keys")
        shown = (statistics.median(latencies), p99, latencies[-1])
        print("input latency: median {:.1f} ms, p99 {:.1f} ms, worst {:.1f} ms".format(*(one * 1e3 for one in shown)))
        print(f"CPU a token, keys included: {used / count * 1e6:.1f} us")
        third = shares[len(shares) // 3 :] or [terminal.memory]
        print(f"memory: before {memory:.1f} MB, at a third {third[0]:.1f} MB, at the end {terminal.memory:.1f} MB")
        terminal.close()


def open_large(messages: int, repeat: int) -> None:
    """A session of so many messages, from Enter to the prompt and to its last words."""
    with served([{"reply": "say", "text": "x"}]) as url, TempHome.for_server(url) as home:
        session = asyncio.run(_filled(home, messages))
        rows = []
        for _ in range(repeat):
            terminal = Terminal(home, "--resume", session)
            prompt = terminal.until(PROMPT)
            whole = terminal.until(f"answer {messages // 2 - 1} ".encode())
            rows.append((prompt, whole, terminal.memory))
            terminal.close()
            fresh = Terminal(home)
            rows[-1] += (fresh.until(b"scripted"[:0] or PROMPT),)
            fresh.close()
    for name, at in (("to the prompt", 0), ("to the session's last words", 1), ("a fresh one, to the prompt", 3)):
        values = [row[at] for row in rows]
        print(f"{name:<28} median {statistics.median(values) * 1e3:6.0f} ms, worst {max(values) * 1e3:6.0f} ms")


async def _filled(home: TempHome, messages: int) -> str:
    from hermes.core.messages import Message, Role, TextPart, user_message
    from hermes.sessions.app import App
    from hermes.sessions.options import SessionOptions

    history = []
    for number in range(messages // 2):
        history.append(user_message(f"question {number}: what does module_{number}.py do? " + "words and more " * 20))
        text = f"answer {number} : it opens a file, reads it, and closes it again. " + "more of it " * 40
        history.append(Message(role=Role.ASSISTANT, parts=(TextPart(text=text),)))
    async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
        actor = await app.open_session(history=history)
        return actor.session_id


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.terminal", description=__doc__)
    parser.add_argument("what", nargs="*", choices=["start", "stream", "open"], default=["start", "stream", "open"])
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=30_000)
    parser.add_argument("--pace", type=float, default=0.0, help="seconds between two deltas")
    parser.add_argument("--every", type=float, default=0.1, help="seconds between two keys")
    parser.add_argument("--messages", type=int, default=5_000)
    given = parser.parse_args()
    if "start" in given.what:
        start(given.repeat)
    if "stream" in given.what:
        stream(given.tokens, given.pace, given.every)
    if "open" in given.what:
        open_large(given.messages, given.repeat)
    return 0


if __name__ == "__main__":
    sys.exit(main())
