"""Pages of sessions: whatever a conversation holds, the page shows it as text, runs nothing and fetches nothing."""

import re
import secrets
from base64 import b64encode
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser

import pytest

from hermes.admin.session_page import MAX_RESULT, render_session_page
from hermes.core.encoding import Plain

ALLOWED = {
    *(
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "header",
        "main",
        "footer",
        "article",
        "h1",
        "h2",
        "h3",
        "time",
    ),
    *("p", "div", "details", "summary", "span", "pre", "code", "a", "strong", "em", "del", "br", "hr"),
    *("ul", "ol", "li", "blockquote", "table", "thead", "tbody", "tr", "th", "td"),
}
ATTRIBUTES = {"lang", "charset", "http-equiv", "content", "name", "class", "href", "start"}
VOID = {"meta", "br", "hr"}
ATTACKS = [
    "<script>fetch('https://evil.example')</script>",
    "<img src=x onerror=alert(1)>",
    "[click](javascript:alert(1)) and [data](data:text/html,<script>1</script>)",
    "![pixel](https://evil.example/pixel.png?q=1)",
    "</details></article></main></body></html><script>1</script>",
    "</style><style>@import url(https://evil.example)</style>",
    "</title><base href=https://evil.example/>",
    '<a href="x" onclick="1">a</a> <iframe src=//evil.example></iframe>',
    '```"><script>1</script>\n</code></pre><script>2</script>\n```',
    "| a | b |\n|---|---|\n| <b onload=1> | [x](vbscript:1) |",
    '> - 1. <svg/onload=1>\n\n"><svg onload=1>',
    '[x](https://e.example/"onmouseover="1)\n\n<https://e.example/\'><img>',
    "&lt;script&gt;1&lt;/script&gt; &#60;script>",
    "<!-- --><![CDATA[<script>]]><?php",
]


class Reader(HTMLParser):
    """Reads a page, and refuses what does not belong there."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.text: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED, tag
        assert {name for name, _ in attrs} <= ATTRIBUTES, attrs
        self.links += [value or "" for name, value in attrs if name == "href"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)


def read_page(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    assert all(re.match(r"https?://|mailto:", link) for link in reader.links), reader.links
    return reader


def make_page(*messages: Plain, title: str = "A talk") -> str:
    session: Plain = {"id": "20261126_abc", "title": title, "created_at": 0.0, "model": "mock"}
    return render_session_page(session, [{"created_at": 0.0} | one for one in messages], lambda text: text)


def call(arguments: str, result: str, name: str = "terminal") -> list[Plain]:
    asked = {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}
    return [
        {"role": "assistant", "content": "", "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": "c1", "name": name, "content": result},
    ]


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_gets_out_of_its_text(attack: str) -> None:
    page = make_page(
        {"role": "user", "content": attack},
        {"role": "assistant", "content": attack},
        *call(attack, attack, name=attack),
        {"role": "tool", "tool_call_id": "nobody's", "name": attack, "content": attack},
        {"role": attack, "content": attack},
        title=attack,
    )
    reader = read_page(page)
    shown = "".join(reader.text)
    assert attack.split("\n", maxsplit=1)[0][:12] in shown  # shown as it is where it was typed
    assert "src=" not in re.sub(r"&[a-z#0-9]+;[^<]*", "", page)


def test_the_policy_forbids_all_but_the_style_that_is_there() -> None:
    page = make_page({"role": "user", "content": "hi"})
    policy = unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1])  # type: ignore[index]
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]  # type: ignore[index]
    digest = b64encode(sha256(style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-{digest}'"
    assert page.index("Content-Security-Policy") < page.index("<style>")
    assert "style=" not in page and "prefers-color-scheme:dark" in style and "width=device-width" in page
    assert not re.search(r"url\(|@import|https?:", style)


def test_answers_are_rendered_and_calls_are_folded() -> None:
    page = make_page(
        {"role": "user", "content": "**as** typed\n  twice"},
        {"role": "assistant", "content": "# Done\n\n- *one*\n- [two](https://example.com)\n\n```py\nx = 1\n```"},
        *call('{"command": "ls"}', "a.py\nb.py"),
    )
    assert "**as** typed\n  twice" in page
    assert "<h1>Done</h1>" in page and "<em>one</em>" in page and '<a href="https://example.com">two</a>' in page
    folded = re.search(r"<details>.*?</details>", page, re.DOTALL)
    assert folded is not None and "a.py\nb.py" in folded[0] and "terminal" in folded[0]
    assert page.count("<article") == 3  # the result stands with its call


def test_what_cannot_be_seen_is_spelled_out() -> None:
    hidden = "safe\u202egnp.exe\u202c \u200b\x1b[31mred\x1b[0m \x00\x07"
    page = make_page(
        {"role": "user", "content": hidden},
        {"role": "assistant", "content": hidden},
        *call(hidden, hidden),
        title=hidden,
    )
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\x00-\x08\x0b-\x1f\x7f-\x9f]", page)
    assert "202e" in page.lower()


def test_marks_for_models_are_left_out_and_long_results_are_cut() -> None:
    fenced = '<untrusted source="file" from="a.txt" id="0123456789">\nwords\n</untrusted id="0123456789">'
    page = make_page(*call("{}", fenced + "x" * 3 * MAX_RESULT))
    assert "untrusted" not in page and "words" in page and "characters left out" in page
    assert len(page) < 1.2 * MAX_RESULT


def test_secrets_are_removed_from_every_text() -> None:
    secret = "hunter" + secrets.token_hex(12)
    session: Plain = {"id": "x", "title": f"t {secret}", "created_at": 0.0, "model": secret}
    told = [
        {"created_at": 0.0} | one
        for one in ({"role": "user", "content": secret}, *call(f'{{"a": "{secret}"}}', secret))
    ]
    told.append({"created_at": 0.0, "role": "assistant", "content": f"`{secret}` and **{secret}**"})
    page = render_session_page(session, told, lambda text: text.replace(secret, "[secret]"))
    assert secret not in page and page.count("[secret]") >= 7
