"""HTML as Markdown, by the converter of web pages, which runs in the box like everything else."""

import codecs
import re

from hermes.media.reader.failures import DAMAGED, UnreadableError, import_failure

_MAX_HTML = 8_000_000
_DECLARED = re.compile(rb"(?:charset|encoding)\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_MEANT = {"iso-8859-1": "cp1252", "latin-1": "cp1252", "us-ascii": "cp1252", "gb2312": "gb18030", "gbk": "gb18030"}
_MAX_OPEN = 2_000
"""Elements of one kind left open, beyond which the parser takes quadratic time."""


def decode_text(data: bytes, declared: str = "") -> str:
    """Decode text by its mark, by what is declared, by trying."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return data.decode(name, "replace")
    found = _DECLARED.search(data[:2_048])
    named = (declared or (found[1].decode("ascii", "replace") if found else "")).lower()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        try:
            codec = codecs.lookup(_MEANT.get(named, named) or "cp1252")
            is_text = codec._is_text_encoding  # noqa: SLF001 - Python says it nowhere else
            return data.decode(codec.name if is_text else "cp1252", "replace")
        except LookupError:
            return data.decode("cp1252", "replace")


def convert_page(text: str) -> tuple[str, str]:
    """Return the Markdown and the title of a page. Raises UnreadableError."""
    if len(text) > _MAX_HTML:
        raise UnreadableError(DAMAGED, f"its page has more than {_MAX_HTML:,} characters")
    lower = text.lower()
    if any(lower.count(f"<{tag}") - lower.count(f"</{tag}") > _MAX_OPEN for tag in ("div", "span", "font", "ul")):
        raise UnreadableError(DAMAGED, f"its page leaves more than {_MAX_OPEN:,} elements open")
    try:
        from hermes.web.html_to_markdown import convert_html
    except ImportError as error:
        raise import_failure(error, "selectolax") from None
    page = convert_html(text, "")
    return page["text"], page["title"]
