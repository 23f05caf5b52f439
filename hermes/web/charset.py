"""Bytes of a page as text: by mark, by what the server says, by what the page says, by trying."""

import codecs
import re

_KNOWN = re.compile(
    r"utf-?8|utf-?16(?:le|be)?|us-?ascii|ascii|latin-?1|iso-?8859-?\d{1,2}|windows-?125\d|cp125\d|cp866|koi8-?[ru]|"
    r"mac-?roman|shift_?-?jis|sjis|windows-31j|ms932|cp932|euc-?(?:jp|kr|cn)|iso-2022-(?:jp|kr)|gb2312|gbk|gb18030|"
    r"big5(?:-?hkscs)?|tis-620",
    re.IGNORECASE,
)
"""Names of encodings of text. Python knows others, some of which are none, or take quadratic time."""
_INSTEAD = {
    "iso-8859-1": "cp1252",
    "iso8859-1": "cp1252",
    "latin1": "cp1252",
    "latin-1": "cp1252",
    "ascii": "cp1252",
    "us-ascii": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "shift-jis": "cp932",
    "sjis": "cp932",
    "windows-31j": "cp932",
    "iso-8859-9": "cp1254",
    "tis-620": "cp874",
}
"""What is meant by a name on the web, where that is more than the name says."""
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_HEADER = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_META = re.compile(rb"<meta[^>]{0,300}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_XML = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})", re.IGNORECASE)
_LOOK_AT = 4_096


def decoded(body: bytes, content_type: str) -> str:
    """The text of a body. What cannot be read becomes U+FFFD; never raises."""
    for mark, name in _MARKS:
        if body.startswith(mark):
            return body.decode(name, "replace")
    named = _HEADER.search(content_type)
    declared = named[1] if named else _declared(body[:_LOOK_AT])
    codec = _codec(declared)
    if codec:
        return body.decode(codec, "replace")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        # A page cut within a character is UTF-8 all the same.
        return body.decode("utf-8" if error.reason == "unexpected end of data" else "cp1252", "replace")


def _declared(beginning: bytes) -> str:
    found = _META.search(beginning) or _XML.search(beginning)
    name = found[1].decode("ascii", "replace") if found else ""
    # A page that could be read so far is not in UTF-16, whatever it says.
    return "utf-8" if name.lower().startswith("utf-16") else name


def _codec(name: str) -> str:
    if not name or not _KNOWN.fullmatch(name):
        return ""
    name = name.lower()
    try:
        return codecs.lookup(_INSTEAD.get(name, name)).name
    except LookupError:
        return ""
