"""A long streamed answer as terminal lines: CPU per token, and memory at a third of it and at its end.

python -m bench.markdown [TOKENS]
"""

import random
import sys
import time
import tracemalloc

from hermes.cli.render.markdown import MarkdownRenderer
from hermes.cli.render.theme import ColorDepth, Theme

CHARACTERS = 4
"""Of a token."""
WIDTH = 100
PARTS = (
    "## Part {n}: what was found\n\n",
    """The parser keeps **one state per line**, so `feed(delta)` never looks back: [the notes](https://example.org/{n})
and the *second* table below. It's a “quiet” change — nothing that callers see moves, and the cost of one more line
stays the same for {n} lines as for three.\n\n""",
    """- first point of {n}, with `code`\n- second point
  - nested, and **bold words** that go on for a while so that the line has to be wrapped somewhere near its end
    1. deep one\n    2. deep two\n- third point\n\n""",
    """```python\ndef part_{n}(values: list[int]) -> int:\n    \"\"\"Adds what is even.\"\"\"\n    total = 0  # none yet
    for value in values:\n        if value % 2 == 0:\n            total += value * {n}\n    return total\n```\n\n""",
    """| name | value | what it is for |\n|---|---:|---|\n| alpha {n} | 1,024 | the **first** of them |
| beta | 17 | `inner` state |\n| gamma | 3 | 中文也可以 |\n\n""",
    "> Quoted words of part {n}, which stand for themselves.\n\n",
    "中文的一段话：解析器按行工作，所以每一行只读一次；第 {n} 部分说明为什么这样做，以及它的代价是多少。\n\n",
)


def answer(tokens: int) -> str:
    """A made-up answer of that length."""
    pieces: list[str] = []
    size = number = 0
    while size < tokens * CHARACTERS:
        piece = PARTS[number % len(PARTS)].replace("{n}", str(number))
        pieces.append(piece)
        size += len(piece)
        number += 1
    return "".join(pieces)


def deltas(text: str, seed: int = 1) -> list[str]:
    """The text in pieces of 1 to 8 characters."""
    chance, found, at = random.Random(seed), [], 0
    while at < len(text):
        size = chance.randint(1, 8)
        found.append(text[at : at + size])
        at += size
    return found


def measure(tokens: int, *, tail_every: int = 0) -> tuple[float, int]:
    """Microseconds of CPU per token, and lines; with `tail_every` the tail is asked for after so many pieces."""
    pieces = deltas(answer(tokens))
    markdown = MarkdownRenderer(Theme({}, ColorDepth.INDEXED), lambda: WIDTH)
    lines = 0
    began = time.process_time()
    for number, piece in enumerate(pieces):
        lines += len(markdown.feed(piece))
        if tail_every and number % tail_every == 0:
            markdown.tail(20)
    lines += len(markdown.close())
    return (time.process_time() - began) / tokens * 1e6, lines


def memory(tokens: int) -> tuple[int, int]:
    """Peak bytes held while the first third, and while all of it came in."""
    pieces = deltas(answer(tokens))
    markdown = MarkdownRenderer(Theme({}, ColorDepth.INDEXED), lambda: WIDTH)
    tracemalloc.start()
    third = 0
    for number, piece in enumerate(pieces):
        markdown.feed(piece)
        if number == len(pieces) // 3:
            third = tracemalloc.get_traced_memory()[1]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return third, peak


def main() -> None:
    tokens = int(sys.argv[1]) if len(sys.argv) > 1 else 30_000
    began = time.process_time()
    measure(200)
    print(f"first use: {(time.process_time() - began) * 1e3:.1f} ms CPU")
    best, lines = min(measure(tokens) for _ in range(3))
    print(f"{tokens:,} tokens, {lines:,} lines: {best:.1f} us CPU per token")
    print(f"the same, the tail asked for every 5 pieces: {measure(tokens, tail_every=5)[0]:.1f} us CPU per token")
    third, peak = memory(tokens)
    print(f"memory: peak {third / 1024:,.0f} KB at a third, {peak / 1024:,.0f} KB at the end")


if __name__ == "__main__":
    main()
