"""Texts that come with a message from an editor, marked with where they are from."""

from urllib.parse import unquote, urlsplit

from hermes.core.messages import Provenance, Source, TextPart
from hermes.runtime.mailbox import fence_attached_text
from hermes.safety.fencing import fence_untrusted_text
from hermes.tools.result_provenance import find_provenance
from hermes.tools.session import ToolContext
from hermes.util.file_handles import find_real_path
from hermes.util.text import clean_surrogates, strip_control_characters, to_one_line

_FILE_LIMIT, _ALL_LIMIT, _LEAST_SHOWN = 20_000, 60_000, 200
"""Characters that are shown of one text, of all that come with one message, and in any case."""
_MAX_URI = 300


class EmbeddedTexts:
    """The texts that an editor puts into one message: a file as it stands there, or something that it has fetched."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._room = _ALL_LIMIT

    def build_part(self, uri: str, text: str) -> TextPart:
        """Return a text as a part of the message, as untrusted as what `read_file` or a fetch would return of it."""
        text = self._context.redact(clean_surrogates(text))
        limit = min(_FILE_LIMIT, max(self._room, _LEAST_SHOWN))
        shown = text[:limit]
        self._room -= len(shown)
        provenance = self._find_provenance(uri)
        fenced = fence_untrusted_text(shown, provenance) if provenance.is_untrusted else fence_attached_text(shown)
        rest = f"\n[Only its first {limit:,} characters are here.]" if len(text) > limit else ""
        name = to_one_line(strip_control_characters(clean_surrogates(uri)), _MAX_URI)
        return TextPart(f"[From the editor: {name}]\n{fenced}{rest}", provenance)

    def _find_provenance(self, uri: str) -> Provenance:
        path = read_file_uri(uri)
        if path is None:
            kind = Source.WEB if uri.startswith(("http://", "https://")) else Source.OTHER
            return Provenance(kind, to_one_line(clean_surrogates(uri), _MAX_URI))
        try:
            real = find_real_path(path)
        except (OSError, ValueError):
            return Provenance(Source.FILE, path)
        found = find_provenance((), (real,), self._context, frozenset(), runs=False)
        return found or Provenance(Source.FILE, real, vouched=True)


def read_file_uri(uri: str) -> str | None:
    """Return the absolute path that a `file:` address names; None for any other address."""
    try:
        found = urlsplit(uri) if uri.startswith("file://") else None
    except ValueError:
        return None
    if found is None or found.netloc not in ("", "localhost"):
        return None
    path = unquote(found.path, errors="surrogateescape")
    return path if path.startswith("/") and "\0" not in path else None
