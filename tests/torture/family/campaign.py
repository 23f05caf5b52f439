"""`make family`: the life of a family's bot, step by step, each held to what a page of `docs/` promises.

The gateway is a process; Telegram and Discord are those of `tests/vendors`, on loopback. People on Discord are clients
of discord.py. What the bot sends to Telegram is read by python-telegram-bot, and what that cannot read is a failure.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence

from msgspec import Struct

from tests.torture.family import (
    approvals,
    backups,
    conversations,
    files,
    groups,
    jobs,
    pairing,
    reloads,
    restarts,
    roles,
    sending,
    strangers,
    webhooks,
)
from tests.torture.family.world import BrokenPromiseError, Step, World, world

CHAPTERS = {
    "strangers": strangers.STEPS,
    "menus": strangers.MENUS,
    "pairing": pairing.STEPS,
    "roles": roles.STEPS,
    "groups": groups.STEPS,
    "files": files.STEPS,
    "conversations": conversations.STEPS,
    "approvals": approvals.STEPS,
    "sending": sending.STEPS,
    "jobs": jobs.STEPS,
    "webhooks": webhooks.STEPS,
    "reloads": reloads.STEPS,
    "restarts": restarts.STEPS,
    "backups": backups.STEPS,
}
"""In the order of the bot's life."""
NEEDS = {"jobs": ["sending"], "webhooks": ["sending"], "backups": ["sending"]}
"""What comes before a chapter beside the first, where it is gone through alone: a home chat, a name of Anna's."""


class Outcome(Struct, frozen=True):
    """What became of a step; no `wrong`: what the page says."""

    step: Step
    wrong: str


async def carry_out(step: Step, here: World) -> Outcome:
    """Do a step, and look at what the clients of people could not read meanwhile."""
    invalid, refused = len(here.judge.invalid), len(_refused(here))
    mistakes = sum(len(one.mistakes) for one in here.people.values())
    try:
        async with asyncio.timeout(150):
            await step.do(here)
    except TimeoutError:
        return Outcome(step, "it did not happen in time")
    except (BrokenPromiseError, ValueError, LookupError, OSError) as error:
        return Outcome(step, str(error) or repr(error))
    all_refused = _refused(here)
    wrong = here.judge.invalid[invalid:] + all_refused[refused:]
    if sum(len(one.mistakes) for one in here.people.values()) > mistakes:
        wrong.append("discord.py could not read a message")
    return Outcome(step, "; ".join(wrong))


_HARMLESS = ("setmycommands: Bad Request: chat not found", "editmessagetext: Bad Request: message is not modified")
"""A menu for somebody who has not written yet, and an edit that came to nothing: both are counted on."""


def _refused(here: World) -> list[str]:
    """Requests that the vendors would not take."""
    return [one for one in (*here.telegram.refused, *here.discord.refused) if not one.startswith(_HARMLESS)]


async def live(chapters: Sequence[str], *, match: str = "", show: bool = True) -> list[Outcome]:
    """Go through these chapters, behind the first, which starts the gateway."""
    outcomes: list[Outcome] = []
    async with world() as here:
        wanted = [one for chapter in chapters for one in (*NEEDS.get(chapter, []), chapter)]
        for chapter in dict.fromkeys(["strangers", *wanted]):
            for step in CHAPTERS[chapter]:
                if match not in step.name and chapter in chapters and outcomes:
                    continue
                began = time.monotonic()
                outcome = await carry_out(step, here)
                outcomes.append(outcome)
                if show:
                    _print_outcome(len(outcomes), chapter, outcome, time.monotonic() - began)
        wrong = [line for line in here.output if "Traceback" in line]
        if show:
            read = sum(here.judge.judged.values())
            print(
                f"python-telegram-bot read {read} calls, discord.py {sum(len(o.heard) for o in here.people.values())}"
            )
            print("".join(f"the gateway said: {line}\n" for line in wrong), end="")
    return outcomes


def _print_outcome(number: int, chapter: str, outcome: Outcome, seconds: float) -> None:
    mark = "WRONG" if outcome.wrong else "as promised"
    step = outcome.step
    print(f"{number:3} {mark:11} {seconds:5.1f}s {chapter}: {step.name} -> {step.expected} [{step.page}]", flush=True)
    if outcome.wrong:
        print(f"      {outcome.wrong[:1500]}", flush=True)


async def main() -> int:
    """Run the campaign; 1 when a promise was broken."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="chapters, with commas between them")
    parser.add_argument("--match", default="", help="of these chapters only steps whose names hold this")
    given = parser.parse_args()
    outcomes = await live(given.only.split(",") if given.only else list(CHAPTERS), match=given.match)
    right = sum(not one.wrong for one in outcomes)
    print(f"{right} of {len(outcomes)} steps as the docs say")
    return 0 if right == len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
