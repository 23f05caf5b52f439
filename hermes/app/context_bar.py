"""What fills a model's window, part by part, and its picture. For `/context`."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from hermes.app.charts import fitted, width
from hermes.app.prompting import Size
from hermes.core.messages import Message, Role
from hermes.core.parts import ToolResultPart
from hermes.util.local import compact
from hermes.util.say import phrase, say

SYSTEM = phrase("system prompt")
TOOLS = phrase("tools")
MEMORY = phrase("memory")
SKILLS = phrase("skills")
YOURS = phrase("your messages")
ANSWERS = phrase("answers")
RESULTS = phrase("tool results")
NOTES = phrase("notes of Hermes")
FREE = phrase("free")
KINDS = (SYSTEM, TOOLS, MEMORY, SKILLS, YOURS, ANSWERS, RESULTS, NOTES)
_MARKS = "█▓▒░▚▞▤▥"
_EMPTY = "·"
_MEMORY = ("memory", "user")


class Share(Struct, frozen=True):
    """One kind of what is sent, and about how many tokens it is."""

    kind: str
    tokens: int


def shares(sizes: Sequence[Size], messages: Sequence[Message], *, counted: int | None = None) -> list[Share]:
    """What the next request is made of, by kind, in the order of `KINDS`; empty kinds are left out.

    Four bytes count as a token. Where the provider has `counted` the tokens of the last prompt, all are scaled to that.
    """
    found = dict.fromkeys(KINDS, 0)
    for size in sizes:
        found[_kind_of(size.part)] += size.bytes
    for message in messages:
        kind = _speaker(message)
        for part in message.parts:
            found[RESULTS if isinstance(part, ToolResultPart) else kind] += len(msgspec.json.encode(part))
    tokens = {kind: -(-amount // 4) for kind, amount in found.items() if amount}
    total = sum(tokens.values())
    scale = counted / total if counted and total else 1.0
    return [Share(kind, max(round(amount * scale), 1)) for kind, amount in tokens.items()]


def picture(parts: Sequence[Share], window: int | None, columns: int, *, words: bool = False) -> list[str]:
    """A bar of everything and a legend, a line each; without a known window the bar shows what there is.

    Every kind that is there has at least one column, so the shares are exact to a column, not the bar to the token.
    """
    used = sum(part.tokens for part in parts)
    free = max(window - used, 0) if window else 0
    shown = [*parts, *([Share(FREE, free)] if window else [])]
    total = sum(part.tokens for part in shown) or 1
    marks = {kind: _MARKS[number] for number, kind in enumerate(KINDS)} | {FREE: _EMPTY}
    lines = []
    if not words:
        drawn = "".join(marks[part.kind] * count for part, count in zip(shown, _columns(shown, columns), strict=True))
        lines += [drawn, ""]
    names = max((width(say(part.kind)) for part in shown), default=0)
    for part in shown:
        share = f"{part.tokens / total:.0%}"
        if words:
            lines.append(
                say("{kind}: {tokens} tokens, {share}", kind=say(part.kind), tokens=compact(part.tokens), share=share)
            )
        else:
            lines.append(f"{marks[part.kind]} {fitted(say(part.kind), names)}  {compact(part.tokens):>6}  {share:>4}")
    lines.append(_summary(used, window))
    return lines


def _summary(used: int, window: int | None) -> str:
    if not window:
        return say("About {used} tokens; how many fit is not known.", used=compact(used))
    if used > window:
        return say("About {used} tokens, more than the {window} that fit.", used=compact(used), window=compact(window))
    return say(
        "About {used} of {window} tokens ({share}).",
        used=compact(used),
        window=compact(window),
        share=f"{used / window:.0%}",
    )


def _columns(parts: Sequence[Share], room: int) -> list[int]:
    """How many columns each part gets: at least one, `room` in all, what remains to the largest remainders."""
    total = sum(part.tokens for part in parts)
    if not total:
        return [0] * len(parts)
    exact = [part.tokens / total * room for part in parts]
    given = [max(int(one), 1 if part.tokens else 0) for one, part in zip(exact, parts, strict=True)]
    order = sorted(range(len(parts)), key=lambda at: exact[at] - given[at], reverse=True)
    for at in order:
        if sum(given) >= room:
            break
        given[at] += 1
    while sum(given) > room and max(given) > 1:
        given[given.index(max(given))] -= 1
    return given


def _kind_of(part: str) -> str:
    """The kind of something that every request begins with, by the name `hermes prompt-size` gives it."""
    where, _, name = part.partition(": ")
    if where == "tool":
        return TOOLS
    if where == "prompt" and name.lower().startswith(_MEMORY):
        return MEMORY
    return SKILLS if name == "skills" else SYSTEM


def _speaker(message: Message) -> str:
    if message.synthetic:
        return NOTES
    return {Role.USER: YOURS, Role.ASSISTANT: ANSWERS, Role.TOOL: RESULTS}[message.role]
