"""The contents of a model's context window by kind, and their chart, for `/context`."""

from collections.abc import Sequence

from hermes.i18n.formats import format_compact
from hermes.i18n.messages import tr
from hermes.markup.charts import fit_text, text_width
from hermes.sessions.context_usage import FREE, KINDS, TokenShare

_MARKS = "█▓▒░▚▞▤▥"


_EMPTY = "·"


def draw_context_bar(
    parts: Sequence[TokenShare], window: int | None, columns: int, *, words: bool = False
) -> list[str]:
    """Draw a bar of all shares and a legend, a line each; without a known window the bar shows only the used part.

    Every kind present has at least one column, so the shares are exact to a column, not the bar to the token.
    """
    used = sum(part.tokens for part in parts)
    free = max(window - used, 0) if window else 0
    shown = [*parts, *([TokenShare(FREE, free)] if window else [])]
    total = sum(part.tokens for part in shown) or 1
    marks = {kind: _MARKS[number] for number, kind in enumerate(KINDS)} | {FREE: _EMPTY}
    lines = []
    if not words:
        drawn = "".join(
            marks[part.kind] * count for part, count in zip(shown, _allocate_columns(shown, columns), strict=True)
        )
        lines += [drawn, ""]
    names = max((text_width(tr(part.kind)) for part in shown), default=0)
    for part in shown:
        share = f"{part.tokens / total:.0%}"
        if words:
            lines.append(
                tr(
                    "{kind}: {tokens} tokens, {share}",
                    kind=tr(part.kind),
                    tokens=format_compact(part.tokens),
                    share=share,
                )
            )
        else:
            lines.append(
                f"{marks[part.kind]} {fit_text(tr(part.kind), names)}  {format_compact(part.tokens):>6}  {share:>4}"
            )
    lines.append(_format_summary(used, window))
    return lines


def _format_summary(used: int, window: int | None) -> str:
    if not window:
        return tr("About {used} tokens; how many fit is not known.", used=format_compact(used))
    if used > window:
        return tr(
            "About {used} tokens, more than the {window} that fit.",
            used=format_compact(used),
            window=format_compact(window),
        )
    return tr(
        "About {used} of {window} tokens ({share}).",
        used=format_compact(used),
        window=format_compact(window),
        share=f"{used / window:.0%}",
    )


def _allocate_columns(parts: Sequence[TokenShare], room: int) -> list[int]:
    """Allocate columns to the parts: at least one each, `room` in all, the remainder to the largest fractions."""
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
