"""Decodes the bytes of a page: by byte order mark, by the server's header, by the page's declaration, by trying."""

import codecs
import re

_KNOWN_ENCODINGS = re.compile(
    r"utf-?8|utf-?16(?:le|be)?|us-?ascii|ascii|latin-?1|iso-?8859-?\d{1,2}|windows-?125\d|cp125\d|cp866|koi8-?[ru]|"
    r"mac-?roman|shift_?-?jis|sjis|windows-31j|ms932|cp932|euc-?(?:jp|kr|cn)|iso-2022-(?:jp|kr)|gb2312|gbk|gb18030|"
    r"big5(?:-?hkscs)?|tis-620",
    re.IGNORECASE,
)
"""Names of text encodings. Python knows others, some of which are none, or take quadratic time."""
_WEB_ENCODINGS = {
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
"""The encodings that are meant by a name on the web, where that is more than the name says."""
_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_HEADER_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_META_CHARSET = re.compile(rb"<meta[^>]{0,300}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_XML_ENCODING = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})", re.IGNORECASE)
_SEARCHED_BYTES = 4_096


def decode_body(body: bytes, content_type: str) -> str:
    """Decode a body. What cannot be read becomes U+FFFD; never raises."""
    for mark, name in _BYTE_ORDER_MARKS:
        if body.startswith(mark):
            return body.decode(name, "replace")
    named = _HEADER_CHARSET.search(content_type)
    declared = named[1] if named else _find_declared(body[:_SEARCHED_BYTES])
    codec = _find_codec(declared)
    if codec:
        return body.decode(codec, "replace")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        # A page cut within a character is UTF-8 all the same.
        return body.decode("utf-8" if error.reason == "unexpected end of data" else "cp1252", "replace")


def _find_declared(beginning: bytes) -> str:
    found = _META_CHARSET.search(beginning) or _XML_ENCODING.search(beginning)
    name = found[1].decode("ascii", "replace") if found else ""
    # A page that could be read so far is not in UTF-16, whatever it says.
    return "utf-8" if name.lower().startswith("utf-16") else name


def _find_codec(name: str) -> str:
    if not name or not _KNOWN_ENCODINGS.fullmatch(name):
        return ""
    name = name.lower()
    try:
        return codecs.lookup(_WEB_ENCODINGS.get(name, name)).name
    except LookupError:
        return ""
