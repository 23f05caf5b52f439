"""Answers from which nothing is fetched by being shown.

In a conversation where strangers' words stand, an address could carry what was said to whoever made it up: by a
picture, by a preview, or by a careless tap.
"""

import re
from collections.abc import Callable
from urllib.parse import urlsplit

from hermes.markup.blocks import Kind
from hermes.markup.document import Part, parts_of
from hermes.markup.inline import Span, spans_of
from hermes.markup.source_spans import apart

_LINK = re.compile(
    r"""!?\[((?:[^\[\]\\]|\\.|\[[^\[\]]*\])*)\]
        \([ \t]*(?:<([^<>\n]*)>|([^\s()<>]*(?:\([^\s()]*\)[^\s()]*)*))
        (?:[ \t\n]+(?:"[^"\n]*"|'[^'\n]*'))?[ \t]*\)""",
    re.VERBOSE | re.DOTALL,
)
_TOKEN = re.compile(
    r"<?(?:[a-z][a-z0-9+.-]{1,20}://|mailto:)[^\s<>`\"\u3000-\u303f\uff00-\uff0f]+>?"
    r"|<?(?<![\w@./+-])[\w@./+-]+(?:[:?#][^\s<>`\"\u3000-\u303f\uff00-\uff0f]*)?>?",
    re.IGNORECASE,
)
"""What may hold an address."""
_SCHEME = re.compile(r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,20}://|mailto:", re.IGNORECASE)
_HOST = re.compile(r"[\w-]\.[^\W\d_]{2,24}(?!\w)")
"""What readers take for the name of a host, with or without a scheme before it."""
_UNESCAPED = re.compile(r"(?<!\\)`")
_ENDS = ".,;:!?*_~)]}'\""


def harmless(markdown: str, allowed: Callable[[str], bool] = lambda host: False) -> str:
    """The text with pictures as words, and every address of a host that is not `allowed` as code, which is not opened
    by a tap and of which no platform makes a preview. Names of files may become code, too.

    What cannot be read with certainty becomes code as a whole.
    """
    if "." not in markdown and ":" not in markdown:
        return markdown
    done = "".join([_prose(text, allowed) if prose else text for text, prose in apart(markdown)])
    if _safe(done, allowed):
        return done
    fence = "`" * (max(map(len, re.findall("`+", markdown)), default=2) + 1)
    return f"{fence}\n{markdown}\n{fence}" if len(fence) > 2 else f"```\n{markdown}\n```"


def _prose(text: str, allowed: Callable[[str], bool]) -> str:
    text = _UNESCAPED.sub(r"\\`", text)  # it begins no code, and shall begin none with what is put in
    at, found = 0, []
    for match in _LINK.finditer(text):
        words, place = match[1], match[2] if match[2] is not None else match[3] or ""
        found.append(_bare(text[at : match.start()], allowed))
        at = match.end()
        if _may(place, allowed):
            found.append(f"[{words or 'image'}]({place})")
        else:
            shown = _bare(words, allowed)
            found.append(f"{shown} ({_code(place)})" if place and place not in words else shown)
    found.append(_bare(text[at:], allowed))
    return "".join(found)


def _bare(text: str, allowed: Callable[[str], bool]) -> str:
    return _TOKEN.sub(lambda match: _written(match[0], allowed), text)


def _written(token: str, allowed: Callable[[str], bool]) -> str:
    at, end = _address(token)
    if at == end or _may(token[at:end], allowed):
        return token
    before = token[:at].removesuffix("<")
    return before + _code(token[at:end]) + token[end:].removeprefix(">" if len(before) < at else "")


def _address(token: str) -> tuple[int, int]:
    """Where the address in it begins and ends; the same where there is none."""
    scheme = _SCHEME.search(token)
    if not scheme and not _HOST.search(token):
        return 0, 0
    at = scheme.start() if scheme else len(token) - len(token.lstrip("<./+-"))
    return at, len(token.rstrip(">").rstrip(_ENDS))


def _code(address: str) -> str:
    return f"`{address.replace('`', '%60')}`" if address else ""


def _may(address: str, allowed: Callable[[str], bool]) -> bool:
    """Whether an address may be opened: it leads to the web, to a host that is allowed, and to nobody in its name."""
    try:
        read = urlsplit(address if "://" in address else f"https://{address}")
        host, user = read.hostname or "", read.username
    except ValueError:
        return False
    return read.scheme in ("http", "https") and user is None and bool(host) and allowed(host)


def _safe(markdown: str, allowed: Callable[[str], bool]) -> bool:
    """Whether nothing in it leads anywhere, as it is read in the end."""
    return all(_part_safe(part, allowed) for part in parts_of(markdown))


def _part_safe(part: Part, allowed: Callable[[str], bool]) -> bool:
    match part.kind:
        case Kind.CODE:
            return True
        case Kind.TABLE:
            spans = [one for row in part.rows for cell in row for one in spans_of(cell)]
        case Kind.TEXT:
            spans = [(part.text, "", "")]
        case _:
            spans = list(part.spans)
    return all(_span_safe(one, allowed) for one in spans)


def _span_safe(span: Span, allowed: Callable[[str], bool]) -> bool:
    words, style, href = span
    styles = style.split()
    if "image" in styles or (href and not _may(href, allowed)):
        return False
    return "code" in styles or all(_token_safe(one, allowed) for one in _TOKEN.findall(words))


def _token_safe(token: str, allowed: Callable[[str], bool]) -> bool:
    at, end = _address(token)
    return at == end or _may(token[at:end], allowed)
