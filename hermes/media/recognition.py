"""What a file is by its first bytes, and by its name where those do not tell."""

import os
import re

from hermes.media.reader.picture_bytes import sniff_picture

HEAD_BYTES = 1_024
"""Bytes of a file's beginning that are looked at."""
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ZIP = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
_MAIL_HEADER = re.compile(
    rb"(?:Return-Path|Received|From|Delivered-To|MIME-Version|X-[\w-]+|Date|Subject|Message-I[Dd]): ?\S"
)
_NAMED = {".ipynb": "notebook", ".eml": "mail", ".html": "page", ".htm": "page", ".xhtml": "page"}


def recognize_file(head: bytes, name: str) -> str:
    """Return `picture`, `document`, `notebook` or `mail` for what is read as such, `page` for HTML, which is text as it
    is, too; empty for everything else.
    """
    if sniff_picture(head[:64]):
        return "picture"
    if head.startswith((*_ZIP, _OLE)) or b"%PDF-" in head:
        return "document"
    kind = _NAMED.get(os.path.splitext(name)[1].lower(), "")
    if kind == "notebook":
        return kind if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") else ""
    if kind == "mail":
        return kind if _MAIL_HEADER.match(head) else ""
    return kind
