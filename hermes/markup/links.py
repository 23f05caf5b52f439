"""Texts from which nothing is fetched by being shown.

In a conversation with untrusted content, an address could carry the conversation's content to whoever
made it up: by a picture, by a preview, or by a careless tap.
"""

import re
from collections.abc import Callable
from urllib.parse import urlsplit

from hermes.markup.blocks import BlockKind
from hermes.markup.document import MarkdownPart, parse_parts
from hermes.markup.inline import Span, parse_spans
from hermes.markup.source_spans import split_code

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
"""Matches text that may hold an address."""
_SCHEME = re.compile(r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,20}://|mailto:", re.IGNORECASE)
_HOST = re.compile(r"[\w-]\.[^\W\d_]{2,24}(?!\w)")
"""Matches what readers take for the name of a host, with or without a scheme before it."""
_UNESCAPED = re.compile(r"(?<!\\)`")
_TRAILING_MARKS = ".,;:!?*_~)]}'\""


def defuse_links(markdown: str, allowed: Callable[[str], bool] = lambda host: False) -> str:
    """Return the text with pictures as words, and every address of a host that is not `allowed` as code, which
    is not opened by a tap and has no preview. File names may become code, too.

    A text that cannot be read with certainty becomes code as a whole.
    """
    if "." not in markdown and ":" not in markdown:
        return markdown
    done = "".join([_defuse_prose(text, allowed) if prose else text for text, prose in split_code(markdown)])
    if _is_safe(done, allowed):
        return done
    fence = "`" * (max(map(len, re.findall("`+", markdown)), default=2) + 1)
    return f"{fence}\n{markdown}\n{fence}" if len(fence) > 2 else f"```\n{markdown}\n```"


def _defuse_prose(text: str, allowed: Callable[[str], bool]) -> str:
    text = _UNESCAPED.sub(r"\\`", text)  # it begins no code, and shall begin none with what is put in
    at, found = 0, []
    for match in _LINK.finditer(text):
        words, place = match[1], match[2] if match[2] is not None else match[3] or ""
        found.append(_defuse_tokens(text[at : match.start()], allowed))
        at = match.end()
        if _is_allowed(place, allowed):
            found.append(f"[{words or 'image'}]({place})")
        else:
            shown = _defuse_tokens(words, allowed)
            found.append(f"{shown} ({_inline_code(place)})" if place and place not in words else shown)
    found.append(_defuse_tokens(text[at:], allowed))
    return "".join(found)


def _defuse_tokens(text: str, allowed: Callable[[str], bool]) -> str:
    return _TOKEN.sub(lambda match: _defuse_token(match[0], allowed), text)


def _defuse_token(token: str, allowed: Callable[[str], bool]) -> str:
    at, end = _find_address(token)
    if at == end or _is_allowed(token[at:end], allowed):
        return token
    if not token[:at].strip("<./+-"):  # what stands before a path belongs to it
        at = len(token) - len(token.lstrip("<"))
    before = token[:at].removesuffix("<")
    return before + _inline_code(token[at:end]) + token[end:].removeprefix(">" if len(before) < at else "")


def _find_address(token: str) -> tuple[int, int]:
    """Return where the address in a token begins and ends; the same index twice where there is none."""
    scheme = _SCHEME.search(token)
    if not scheme and not _HOST.search(token):
        return 0, 0
    at = scheme.start() if scheme else len(token) - len(token.lstrip("<./+-"))
    return at, len(token.rstrip(">").rstrip(_TRAILING_MARKS))


def _inline_code(address: str) -> str:
    return f"`{address.replace('`', '%60')}`" if address else ""


def _is_allowed(address: str, allowed: Callable[[str], bool]) -> bool:
    """Return whether an address may be opened: it leads to the web, to an allowed host, and names no user."""
    try:
        read = urlsplit(address if "://" in address else f"https://{address}")
        host, user = read.hostname or "", read.username
    except ValueError:
        return False
    return read.scheme in ("http", "https") and user is None and bool(host) and allowed(host)


def _is_safe(markdown: str, allowed: Callable[[str], bool]) -> bool:
    """Return whether no part of the parsed text leads anywhere."""
    return all(_is_part_safe(part, allowed) for part in parse_parts(markdown))


def _is_part_safe(part: MarkdownPart, allowed: Callable[[str], bool]) -> bool:
    match part.kind:
        case BlockKind.CODE:
            return True
        case BlockKind.TABLE:
            spans = [one for row in part.rows for cell in row for one in parse_spans(cell)]
        case BlockKind.TEXT:
            spans = [(part.text, "", "")]
        case _:
            spans = list(part.spans)
    return all(_is_span_safe(one, allowed) for one in spans)


def _is_span_safe(span: Span, allowed: Callable[[str], bool]) -> bool:
    words, style, href = span
    styles = style.split()
    if "image" in styles or (href and not _is_allowed(href, allowed)):
        return False
    return "code" in styles or all(_is_token_safe(one, allowed) for one in _TOKEN.findall(words))


def _is_token_safe(token: str, allowed: Callable[[str], bool]) -> bool:
    at, end = _find_address(token)
    return at == end or _is_allowed(token[at:end], allowed)
