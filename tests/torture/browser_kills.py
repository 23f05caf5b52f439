"""Kills of a process that uses a browser, at random moments of its start, its pages and its end: nothing is left of it.

python -m tests.torture.browser_kills --kills 100 --seed 0
"""

import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from hermes.browser.profile import BrowserProfileFolder
from hermes.util.cancellation import cancel_tasks
from tests.browser.boxed_browser import Person, SmallWeb, boxed_browser, navigate

_GONE_SECONDS = 10.0
_POLL_SECONDS = 0.01
_PAGES = {
    "shop.example/": "<title>Shop</title><script>setInterval(() => fetch('/x'), 5)</script>",
    "shop.example/busy": "<title>Busy</title><script>setTimeout(() => { for (;;); }, 20)</script>",
    "shop.example/popups": "<title>Popups</title><script>for (let i = 0; i < 20; i++) open('/')</script>",
}


async def use_browser(folder: Path) -> None:
    """Start a browser, open pages, close it, and begin again, until this process is killed."""
    async with SmallWeb(_PAGES).running() as web:
        while True:
            profile = BrowserProfileFolder(folder)
            async with (
                boxed_browser(folder, web, profile=profile) as browser,
                browser.use_pages(Person("shop.example")) as pages,
            ):
                sys.stdout.write("runs\n")
                sys.stdout.flush()
                tab = await pages.browser.get_current_tab()
                for path in ("", "popups", "busy"):
                    opening = asyncio.create_task(navigate(tab, f"http://shop.example/{path}"))
                    await asyncio.wait({opening}, timeout=0.2)
                    await cancel_tasks([opening])


def count_left(marker: str) -> int:
    """Return how many processes have the marker in their command line."""
    found = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            found += marker.encode() in Path(f"/proc/{pid}/cmdline").read_bytes() and int(pid) != os.getpid()
        except OSError:
            continue
    return found


async def kill_once(random_numbers: random.Random) -> tuple[float, int]:
    """Kill a process that uses a browser; return the seconds until nothing was left, and how many there were."""
    with tempfile.TemporaryDirectory(prefix="browser-kill-") as folder:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.torture.browser_kills", "--child", folder),
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None
        await process.stdout.readline()
        await asyncio.sleep(random_numbers.uniform(0.0, 1.5))
        marker = f"--user-data-dir={folder}"
        before = count_left(marker)
        process.send_signal(signal.SIGKILL)
        await process.wait()
        began = time.monotonic()
        while count_left(marker):
            if time.monotonic() - began > _GONE_SECONDS:
                raise AssertionError(f"{count_left(marker)} processes are left of a browser after {_GONE_SECONDS:g} s")
            await asyncio.sleep(_POLL_SECONDS)
        return time.monotonic() - began, before


async def run_kills(kills: int, seed: int) -> str:
    """Kill so many; return what was seen, in a line. Raises AssertionError where something is left."""
    numbers = random.Random(seed)
    results = [await kill_once(numbers) for _ in range(kills)]
    longest, running = max(seconds for seconds, _ in results), sum(before > 0 for _, before in results)
    return f"{kills} kills, {running} of them while a browser ran: nothing is left after {longest:.2f} s at the longest"


def main() -> None:
    """Run the campaign, or be the process that is killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", type=Path)
    args = parser.parse_args()
    if args.child is not None:
        asyncio.run(use_browser(args.child))
    else:
        sys.stdout.write(f"{asyncio.run(run_kills(args.kills, args.seed))}\n")


if __name__ == "__main__":
    main()
