"""`python -m bench.marks`: what cache marks cost when a request is built, and what the watch over cache hits costs.

Both are shown as ratios: the body with marks against the same body without, in turn, the least of many runs each.
"""

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial

from hermes.core.frame import EpochFrame
from hermes.core.messages import FinishReason, Message, Role, TextPart, ToolCallPart, ToolResultPart, user_message
from hermes.core.usage import Usage
from hermes.llm.lineage import CacheWatch, Lineage
from hermes.providers.resolve import ModelChoice, resolve_endpoint
from hermes.providers.wire import load_wire

MODELS = {"anthropic": "claude-sonnet-5", "openrouter": "anthropic/claude-sonnet-5"}


def conversation(size: int) -> list[Message]:
    """Rounds of one call each, with results of some 5 kB, until they are `size` bytes."""
    messages = [user_message("Read all of it.")]
    for number in range(size // 5_200):
        call = ToolCallPart(call_id=f"call_{number}", name="read_file", arguments=f'{{"path":"{number}.txt"}}')
        result = ToolResultPart(call_id=call.call_id, name="read_file", text=f"line {number} of it\n" * 290)
        parts = (TextPart(text="I read on."), call)
        messages.append(Message(role=Role.ASSISTANT, parts=parts, finish=FinishReason.TOOL_CALLS))
        messages.append(Message(role=Role.TOOL, parts=(result,)))
    return messages


def lineage(provider: str, ttl: str, messages: list[Message]) -> Lineage:
    to = resolve_endpoint(ModelChoice(MODELS[provider], provider, api_key="none", cache_ttl=ttl), {})
    version = load_wire(to.wire).version
    made = Lineage(
        EpochFrame(provider=provider, model=to.model, wire=to.wire, encoder_version=version, system="Be brief. " * 800),
        to,
    )
    made.append_messages(messages)
    return made


def least(jobs: dict[str, Callable[[], object]], runs: int) -> dict[str, float]:
    """The shortest run of each job, in milliseconds; the jobs take turns."""
    found = dict.fromkeys(jobs, float("inf"))
    for _ in range(runs):
        for name, job in jobs.items():
            began = time.perf_counter()
            job()
            found[name] = min(found[name], (time.perf_counter() - began) * 1_000)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.marks", description=__doc__)
    parser.add_argument("--size", type=float, default=2.3, help="MB of messages (default 2.3)")
    parser.add_argument("--runs", type=int, default=200, help="runs of each (default 200)")
    options = parser.parse_args()
    messages = conversation(int(options.size * 1e6))
    sys.stdout.write("\n| provider | body, MB | without marks, ms | with marks, ms | ratio |\n|---|---|---|---|---|\n")
    for provider in MODELS:
        plain, marked = lineage(provider, "", messages), lineage(provider, "5m", messages)
        size = len(marked.build_body()) / 1e6
        costs = least({"without": plain.build_body, "with": marked.build_body}, options.runs)
        row = f"{costs['without']:.3f} | {costs['with']:.3f} | {costs['with'] / costs['without']:.2f}"
        sys.stdout.write(f"| {provider} | {size:.2f} | {row} |\n")
    once = partial(lineage("anthropic", "5m", messages).check_cache_hits, CacheWatch("it", "5m"), at=0.0, key="k")
    used = Usage(input=600_000, cache_read=599_000)
    whole = least({"all": partial(once, used)}, 1)["all"]
    later = least({"later": partial(once, used)}, options.runs)["later"]
    lost = least({"lost": partial(once, Usage(input=600_000))}, 1)["lost"]
    sys.stdout.write(
        f"\nThe watch: {whole:.3f} ms for all messages the first time, {later:.4f} ms a request with nothing new, "
        f"{lost:.3f} ms when hits are missing.\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
