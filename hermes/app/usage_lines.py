"""What was used and what it cost as lines, for verbs and slash commands."""

from hermes.app.openai_form import Plain
from hermes.util.say import phrase, say, say_many, translated
from hermes.util.text import inert

_SURE = {"reported": phrase("as reported"), "computed": phrase("by list price"), "upper_bound": phrase("at most")}


def usage_lines(report: Plain) -> list[str]:
    """One session's use, for `/usage`."""
    if not report["calls"]:
        return [say("Nothing was used in this session yet.")]
    lines = [
        say(
            "{calls:,} calls, {read:,} tokens in, {written:,} out",
            calls=report["calls"],
            read=report["input_tokens"],
            written=report["output_tokens"],
        ),
        say("cost: {cost}", cost=sure(report)),
        say(
            "cache: {read:,} tokens read, {written:,} written{saved}",
            read=report["cache_read_tokens"],
            written=report["cache_write_tokens"],
            saved=cached(report),
        ),
    ]
    epochs = report["epochs"]
    for epoch in epochs if isinstance(epochs, list) else ():
        told = [translated(inert(str(epoch["reason"])))]
        if epoch["uncached_bytes"] is not None:
            told.append(say("{n:,} bytes sent without a cache", n=epoch["uncached_bytes"]))
        if epoch["first_prompt_tokens"]:
            told.append(say("{n:,} tokens in its first request", n=epoch["first_prompt_tokens"]))
        lines.append("  " + say("epoch {n}: {what}", n=epoch["number"], what="; ".join(told)))
    return lines


def limits(cap: Plain, usd_left: str = "", tokens_left: str = "") -> str:
    """A cap's limits, with what is left of them where that is known."""
    parts = []
    if cap["usd"] is not None:
        whole = usd(cap["usd"])
        parts.append(say("{left} of {whole} left", left=usd(cap[usd_left]), whole=whole) if usd_left else whole)
    if cap["tokens"] is not None:
        many = cap["tokens"]
        left = say("{left:,} of {whole:,} tokens left", left=cap[tokens_left], whole=many) if tokens_left else ""
        parts.append(left or say("{n:,} tokens", n=many))
    return ", ".join(parts)


def sure(row: Plain) -> str:
    """A sum of money, and how sure it is; of calls that have no known cost, only that."""
    unknown, calls = int(str(row["calls_of_unknown_cost"])), int(str(row["calls"]))
    if not unknown:
        return say("{amount} ({how})", amount=usd(row["usd"]), how=say(_SURE[str(row["cost_status"])]))
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
        return say("; {rate:.0%} from cache", rate=rate)
    gain = float(str(amount))
    if gain < 0:
        return say("; {rate:.0%} from cache, which cost {amount}", rate=rate, amount=usd(-gain))
    return say("; {rate:.0%} from cache, which saved {amount}", rate=rate, amount=usd(gain))


def usd(amount: object) -> str:
    """Dollars with cents, and more digits for less than one."""
    dollars = float(str(amount))
    return f"{dollars:,.2f} USD" if dollars >= 1 or dollars == 0 else f"{dollars:.4f} USD"
