"""One text in what every platform reads; nothing of a model's is more than words there."""

import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as some

from hermes.gateway.platform import utf16
from hermes.gateway.text import dialect
from hermes.gateway.text.dialect import EntityText, to_entity_text
from tests.cpu_cost import measure_growth

pytestmark = pytest.mark.slow

TEXT = """\
# Title *here*
Some **bold _and it_ more**, ~~gone~~, `a *b*`, [link](https://a.example/x_y), https://b.example/a_b_c, <me@x.example>.
snake_case 2 * 3 **粗体**文字 ![pic](https://i.example/x.png)

- one
  more
  - two
- [x] done

3. a
   ```py
   if x < 1:
       y = "`"
   ```

> quoted **x**
> > deep

| a | `b` |
|---|--:|
| 天气 | 12 |

---
<b>hi</b> &amp; \\* <@123> @everyone <!channel>"""

PLAIN = """\
Title here
Some bold and it more, gone, a *b*, link (https://a.example/x_y), https://b.example/a_b_c, me@x.example.
snake_case 2 * 3 粗体文字 pic (https://i.example/x.png)

• one
  more
  • two
• ☑ done

3. a
if x < 1:
    y = "`"

> quoted x
> > deep

a      b
----  --
天气  12

———
<b>hi</b> & * <@123> @everyone <!channel>"""

SLACK = """\
*Title _here_*
Some *bold _and it_ more*, ~gone~, `a *b*`, <https://a.example/x_y|link>, <https://b.example/a_b_c>, \
<mailto:me@x.example|me@x.example>.
snake_case 2 * 3 *粗体*\u200b文字 <https://i.example/x.png|pic>

• one
  more
  • two
• ☑ done

3. a
```
if x &lt; 1:
    y = "`"
```

> quoted *x*
> > deep

```
a      b
----  --
天气  12
```

———
&lt;b&gt;hi&lt;/b&gt; &amp; * &lt;@123&gt; @\u200beveryone &lt;!channel&gt;"""

DISCORD = """\
# Title *here*
Some **bold *and it* more**, ~~gone~~, `a *b*`, [link](<https://a.example/x_y>), <https://b.example/a_b_c>, \
me@x.example.
snake_case 2 \\* 3 **粗体**文字 [pic](<https://i.example/x.png>)

- one
  more
  - two
- ☑ done

3. a
```py
if x < 1:
    y = "`"
```

> quoted **x**
> > deep

```
a      b
----  --
天气  12
```

———
\\<b>hi\\</b> & \\* \\<@123> @\u200beveryone \\<!channel>"""

HTML = """\
<h1>Title <em>here</em></h1>
<p>Some <strong>bold </strong><strong><em>and it</em></strong><strong> more</strong>, <del>gone</del>, \
<code>a *b*</code>, <a href="https://a.example/x_y">link</a>, \
<a href="https://b.example/a_b_c">https://b.example/a_b_c</a>, <a href="mailto:me@x.example">me@x.example</a>.<br>
snake_case 2 * 3 <strong>粗体</strong>文字 <a href="https://i.example/x.png">pic</a></p>
<ul><li>one<br>
more<ul><li>two</li></ul></li><li>☑ done</li></ul><ol start="3"><li>a<pre><code class="language-py">if x &lt; 1:
    y = "`"
</code></pre>
</li></ol><blockquote><p>quoted <strong>x</strong></p>
<blockquote><p>deep</p>
</blockquote></blockquote><table>
<thead><tr><th>a</th><th><code>b</code></th></tr></thead>
<tbody>
<tr><td>天气</td><td>12</td></tr>
</tbody></table>
<hr>
<p>&lt;b&gt;hi&lt;/b&gt; &amp; * &lt;@123&gt; @\u200beveryone &lt;!channel&gt;</p>
"""


def test_the_dialects() -> None:
    assert dialect.to_plain_text(TEXT) == PLAIN
    assert dialect.to_slack(TEXT) == SLACK
    assert dialect.to_discord(TEXT) == DISCORD
    assert dialect.to_html_fragment(TEXT) == HTML
    assert dialect.to_html_fragment(TEXT) in dialect.to_html_page(TEXT)


def ranges(found: EntityText) -> list[tuple[str, ...]]:
    units = found.text.encode("utf-16-le")
    said = [units[2 * one.offset : 2 * (one.offset + one.length)].decode("utf-16-le") for one in found.entities]
    return [(one.type, text, one.url or one.language) for one, text in zip(found.entities, said, strict=True)]


def test_telegram_reads_ranges_in_utf16() -> None:
    found = to_entity_text(f"😀 {TEXT}", 4096)
    assert ranges(to_entity_text(TEXT, 4096))[:2] == [("bold", "Title here", ""), ("italic", "here", "")]
    assert ranges(found) == [
        ("italic", "here", ""),
        ("bold", "bold and it more", ""),
        ("italic", "and it", ""),
        ("strikethrough", "gone", ""),
        ("code", "a *b*", ""),
        ("text_link", "link", "https://a.example/x_y"),
        ("bold", "粗体", ""),
        ("text_link", "pic", "https://i.example/x.png"),
        ("pre", 'if x < 1:\n    y = "`"', "py"),
        ("blockquote", "quoted x\n> deep", ""),
        ("bold", "x", ""),
        ("pre", "a      b\n----  --\n天气  12", ""),
    ]


def test_a_table_that_gets_too_long_stands_as_it_was_written() -> None:
    table = "|a|b|\n|-|-|\n|" + "x" * 60 + "|1|\n" + "|y|2|\n" * 20
    assert ranges(to_entity_text(table, utf16(table)))[0][1].startswith("|a|b|\n|-|-|\n|xxx")
    assert "y" + " " * 61 + "2" in to_entity_text(table, 4096).text


def test_telegram_keeps_links_when_there_is_too_much_to_mark() -> None:
    found = to_entity_text("**b** *i* " * 100 + "[link](https://a.example)", 4096)
    assert len(found.entities) == 100
    assert found.entities[-1].url == "https://a.example"


def test_nested_ranges_never_cross() -> None:
    found = to_entity_text("**a *b** c* ~~d `e` *f*~~ [g **h**](https://a.example) > `i`", 4096)
    for one in found.entities:
        for other in found.entities:
            begin, end = max(one.offset, other.offset), min(one.offset + one.length, other.offset + other.length)
            assert begin >= end or end - begin in (one.length, other.length)


@pytest.mark.parametrize("call", ["@everyone", "@here", "@channel", "@all", "@room", "@Everyone"])
def test_nobody_is_called(call: str) -> None:
    for written in (dialect.to_slack(call), dialect.to_discord(call), dialect.to_html_fragment(call)):
        assert call not in written
    for raw in ("<!channel>", "<!here|x>", "<@U123>", "<#C1>", "<!subteam^S1>"):
        assert raw not in dialect.to_slack(raw)
        assert dialect.to_discord(raw).startswith("\\<")


TAGS = "<h1> <h2> <h3> <h4> <h5> <h6> <p> <br> <hr> <ul> <ol> <li> <blockquote> <pre> <code> <strong> <em> <del> <a> "
TAGS += "<table> <thead> <tbody> <tr> <th> <td>"
MARKS = some.text(alphabet="ab *_~`[]()<>#|-\\\n&!1.@天", max_size=60)


@given(MARKS)
def test_html_has_no_tags_but_ours(text: str) -> None:
    stack: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            assert f"<{tag}>" in TAGS
            assert all(name in ("href", "class", "start") for name, _ in attrs)
            if tag not in ("br", "hr"):
                stack.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert stack.pop() == tag

    Reader().feed(dialect.to_html_fragment(text))
    assert not stack
    assert not re.search(r"<script|javascript:|<img", dialect.to_html_fragment(text))


@given(MARKS)
def test_what_telegram_gets_is_never_longer_than_what_was_counted(text: str) -> None:
    found = to_entity_text(text, max(utf16(text), 1))
    assert found.size <= max(utf16(text), 1)
    last = 0
    for one in found.entities:
        assert 0 <= one.offset < one.offset + one.length <= found.size
        assert one.offset >= last
        last = one.offset


@pytest.mark.parametrize("text", ["*a", "[a](b", "`a", "\\(", "| a |\n|-|\n", "- a\n", "> ", "word ", "$a "])
def test_a_long_text_is_read_in_time(text: str) -> None:
    def make_writing(size: int) -> Callable[[], object]:
        long = text * (size // len(text))
        return lambda: write(long)

    for write in (dialect.to_plain_text, dialect.to_slack, dialect.to_discord, dialect.to_html_fragment):
        # Up to 4,000 characters are read in one go, where the cost may grow faster.
        assert measure_growth(make_writing, 5_000, 40_000, tries=2) < 24, write  # linear is 8, quadratic would be 64
