"""Format usage and costs as lines, for CLI verbs and slash commands."""

from hermes.i18n.messages import ENGLISH, N_, get_language, localize, tr, tr_plural
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import strip_control_characters

_CERTAINTY_NAMES = {
    "reported": N_("as reported"),
    "computed": N_("by list price"),
    "upper_bound": N_("at most"),
}


def format_session_usage(report: Plain) -> list[str]:
    """Format one session's usage, for `/usage`."""
    if not report["calls"]:
        return [tr("Nothing was used in this session yet.")]
    lines = [
        tr_plural(
            "{n} call, {read:,} tokens in, {written:,} out",
            "{n} calls, {read:,} tokens in, {written:,} out",
            int(str(report["calls"])),
            read=report["input_tokens"],
            written=report["output_tokens"],
        ),
        format_cost_line(report),
        tr(
            "cache: {read:,} tokens read, {written:,} written{saved}",
            read=report["cache_read_tokens"],
            written=report["cache_write_tokens"],
            saved=format_cache_share(report),
        ),
    ]
    comma, stop = (", ", "; ") if get_language() == ENGLISH else ("，", "；")
    epochs = report["epochs"]
    for epoch in epochs if isinstance(epochs, list) else ():
        cost: list[str] = []
        if epoch["uncached_bytes"]:
            cost.append(
                tr_plural("{n} byte of it was sent again", "{n} bytes of it were sent again", epoch["uncached_bytes"])
            )
        if epoch["first_prompt_tokens"]:
            cost.append(tr("{n:,} tokens in its first request", n=epoch["first_prompt_tokens"]))
        reason = localize(strip_control_characters(str(epoch["reason"])))
        lines.append(
            "  "
            + tr(
                "part {n} of the conversation: {what}",
                n=epoch["number"],
                what=stop.join(part for part in (reason, comma.join(cost)) if part),
            )
        )
    return lines


def format_cap_limits(cap: Plain, usd_left: str = "", tokens_left: str = "") -> str:
    """Format a cap's limits, with what is left of them where that is known."""
    parts = []
    if cap["usd"] is not None:
        whole = format_dollars(cap["usd"])
        parts.append(
            tr("{left} of {whole} left", left=format_dollars(cap[usd_left]), whole=whole) if usd_left else whole
        )
    if cap["tokens"] is not None:
        many = cap["tokens"]
        left = tr("{left:,} of {whole:,} tokens left", left=cap[tokens_left], whole=many) if tokens_left else ""
        parts.append(left or tr("{n:,} tokens", n=many))
    return ", ".join(parts)


def format_cost_line(row: Plain) -> str:
    """Format the line of a report that says what it cost."""
    return (
        format_cost(row) if row["calls_of_unknown_cost"] == row["calls"] else tr("cost: {cost}", cost=format_cost(row))
    )


def format_epoch_notice(reason: str, count: int) -> str:
    """Format the notice that requests start from a fresh prefix; empty where nothing is sent again."""
    if not count:
        return ""
    return tr_plural(
        "Prompt cache reset ({reason}): {n} byte is sent again.",
        "Prompt cache reset ({reason}): {n} bytes are sent again.",
        count,
        reason=localize(strip_control_characters(reason)),
    )


def format_cost(row: Plain) -> str:
    """Format a cost with its certainty; of calls without a known cost, say only that."""
    unknown, calls = int(str(row["calls_of_unknown_cost"])), int(str(row["calls"]))
    if not unknown:
        return tr(
            "{amount} ({how})", amount=format_dollars(row["usd"]), how=tr(_CERTAINTY_NAMES[str(row["cost_status"])])
        )
    if unknown == calls:
        return tr("cost not known: the model has no listed price")
    return tr_plural(
        "{usd} and {n} call of unknown cost",
        "{usd} and {n} calls of unknown cost",
        unknown,
        usd=format_dollars(row["usd"]),
    )


def format_cache_share(row: Plain) -> str:
    """Format the share of prompts from caches, and the saved cost; empty where no provider reported a cache."""
    if not row["cache_read_tokens"] and not row["cache_write_tokens"]:
        return ""
    rate, amount = float(str(row["cache_hit_rate"])), row["cache_saved_usd"]
    if amount is None:
        return tr("; {rate:.0%} from cache", rate=rate)
    gain = float(str(amount))
    if gain < 0:
        return tr("; {rate:.0%} from cache, which cost {amount}", rate=rate, amount=format_dollars(-gain))
    return tr("; {rate:.0%} from cache, which saved {amount}", rate=rate, amount=format_dollars(gain))


def format_dollars(amount: object) -> str:
    """Format dollars with cents, and more digits for less than one."""
    dollars = float(str(amount))
    return f"{dollars:,.2f} USD" if dollars >= 1 or dollars == 0 else f"{dollars:.4f} USD"
