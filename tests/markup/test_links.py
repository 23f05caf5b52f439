"""Nothing is fetched by showing an answer, and nothing leads where nobody allowed it."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from hermes.gateway.text import dialect
from hermes.gateway.text.dialect import to_entity_text
from hermes.markup.links import defuse_links
from tests.cpu_cost import measure_growth


def good(host: str) -> bool:
    return host == "good.example"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see [it](https://evil.example/?q=1).", "see it (`https://evil.example/?q=1`)."),
        ("![pic](http://e.example/a.png)", "pic (`http://e.example/a.png`)"),
        ("[it](https://good.example/a)", "[it](https://good.example/a)"),
        ("![pic](https://good.example/a.png)", "[pic](https://good.example/a.png)"),
        (
            "at https://good.example/x, and https://e.example/x.",
            "at https://good.example/x, and `https://e.example/x`.",
        ),
        ("www.e.example or e.example/?q=secret", "`www.e.example` or `e.example/?q=secret`"),
        ("<https://e.example>", "`https://e.example`"),
        ("天气看https://e.example/天气。好", "天气看`https://e.example/天气`。好"),
        ("`https://e.example` stays", "`https://e.example` stays"),
        ("```\nhttps://e.example\n```", "```\nhttps://e.example\n```"),
        ("[app](tg://resolve?domain=x)", "app (`tg://resolve?domain=x`)"),
        ("http://good.example@e.example/", "`http://good.example@e.example/`"),
        ("`not code https://e.example", "\\`not code `https://e.example`"),
        ("[a]: https://e.example\n[b][a]", "[a]: `https://e.example`\n[b][a]"),
        ("no address: 3.14, e.g. this", "no address: 3.14, e.g. this"),
        ("[[x](https://e.example)](tg://y)", "```\n[[x](https://e.example)](tg://y)\n```"),
    ],
)
def test_addresses_are_code(text: str, shown: str) -> None:
    assert defuse_links(text, good) == shown
    assert defuse_links(shown, good) == shown


MARKS = (
    "[ ] ( ) ! ` `` \\ < > * _ ~ | # &#46; words 天 "
    "https://evil.example/x http://evil.example www.evil.example evil.example/p"
)
LARGER = ["\n", "\n\n", "```\n", "| a |\n|---|\n", " ", "- ", "> "]
LINKS = ["[a](https://evil.example)", "![a](https://evil.example)"]
PIECES = some.lists(some.sampled_from([*MARKS.split(), *LARGER, *LINKS]), max_size=14).map("".join)


@given(PIECES)
def test_whatever_is_written_nothing_leads_anywhere(text: str) -> None:
    safe = defuse_links(text)
    shown = to_entity_text(safe, 4096)
    assert not [one.url for one in shown.entities if one.url]
    assert "href" not in dialect.to_html_fragment(safe)
    assert "](<" not in dialect.to_discord(safe)
    inside = [(one.offset, one.offset + one.length) for one in shown.entities if one.type in ("code", "pre")]
    at = shown.text.find("evil.example")
    while at >= 0:
        unit = len(shown.text[:at].encode("utf-16-le")) // 2
        assert any(begin <= unit < end for begin, end in inside), (text, safe)
        at = shown.text.find("evil.example", at + 1)


@pytest.mark.parametrize("text", ["https://e.example/x ", "[a", "`", "a.", "![](", "www.a.b "])
def test_it_takes_linear_time(text: str) -> None:
    growth = measure_growth(lambda size: lambda: defuse_links(text * (size // len(text))), 6_250, 100_000)
    assert growth < 48  # linear is 16, quadratic would be 256
