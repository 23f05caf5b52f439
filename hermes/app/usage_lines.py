"""What was used and what it cost as lines, for verbs and slash commands."""

from hermes.app.openai_form import Plain
from hermes.util.say import phrase, say, say_many
from hermes.util.text import inert

_SURE = {"reported": phrase("as reported"), "computed": phrase("by list price"), "upper_bound": phrase("at most")}


def usage_lines(report: Plain) -> list[str]:
    """One session's use, for `/usage`."""
    if not report["calls"]:
        return ["Nothing was used in this session yet."]
    lines = [
        f"{report['calls']:,} calls, {report['input_tokens']:,} tokens in, {report['output_tokens']:,} out",
        f"cost: {sure(report)}",
        f"cache: {report['cache_read_tokens']:,} tokens read, {report['cache_write_tokens']:,} written{cached(report)}",
    ]
    epochs = report["epochs"]
    for epoch in epochs if isinstance(epochs, list) else ():
        cost = [] if epoch["uncached_bytes"] is None else [f"{epoch['uncached_bytes']:,} bytes sent without a cache"]
        if epoch["first_prompt_tokens"]:
            cost.append(f"{epoch['first_prompt_tokens']:,} tokens in its first request")
        lines.append(f"  epoch {epoch['number']}: {inert(str(epoch['reason']))}{'; ' if cost else ''}{', '.join(cost)}")
    return lines


def limits(cap: Plain, end: str, usd_left: str = "", tokens_left: str = "") -> str:
    """A cap's limits, with what is left of them where that is known."""
    parts = []
    if cap["usd"] is not None:
        parts.append((f"{usd(cap[usd_left])} of " if usd_left else "") + usd(cap["usd"]) + end)
    if cap["tokens"] is not None:
        parts.append((f"{cap[tokens_left]:,} of " if tokens_left else "") + f"{cap['tokens']:,} tokens" + end)
    return ", ".join(parts)


def sure(row: Plain) -> str:
    """A sum of money, and how sure it is; of calls that have no known cost, only that."""
    unknown, calls = int(str(row["calls_of_unknown_cost"])), int(str(row["calls"]))
    if not unknown:
        return f"{usd(row['usd'])} ({say(_SURE[str(row['cost_status'])])})"
    if unknown == calls:
        return say("cost not known: the model has no listed price")
    return say_many(
        "{usd} and {n} call of unknown cost", "{usd} and {n} calls of unknown cost", unknown, usd=usd(row["usd"])
    )


def cached(row: Plain) -> str:
    """What of the prompts came from caches, and what that saved; empty where no provider told of a cache."""
    if not row["cache_read_tokens"] and not row["cache_write_tokens"]:
        return ""
    rate, amount = float(str(row["cache_hit_rate"])), row["cache_saved_usd"]
    if amount is None:
        return f"; {rate:.0%} from cache"
    gain = float(str(amount))
    return f"; {rate:.0%} from cache, which {'saved' if gain >= 0 else 'cost'} {usd(abs(gain))}"


def usd(amount: object) -> str:
    """Dollars with cents, and more digits for less than one."""
    dollars = float(str(amount))
    return f"{dollars:,.2f} USD" if dollars >= 1 or dollars == 0 else f"{dollars:.4f} USD"
