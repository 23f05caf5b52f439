"""Notebooks (.ipynb): the cells in order, with the text of their outputs."""

import json
import re
from collections.abc import Iterator, Sequence

from hermes.media.reader.document import Document
from hermes.media.reader.failures import DAMAGED, TOO_LARGE, UnreadableError

MAX_NOTEBOOK = 24 << 20
"""Bytes of a notebook: in memory it takes five times as much at most."""
_COLORS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_TEXT_FORMS = ("text/plain", "text/markdown", "text/latex")
_MAX_OUTPUT = 20_000
"""Characters of one output that are kept."""


def open_notebook(data: bytes) -> Document:
    """Return a notebook's text. Raises UnreadableError."""
    if len(data) > MAX_NOTEBOOK:
        raise UnreadableError(TOO_LARGE, f"{MAX_NOTEBOOK >> 20} MB")
    try:
        book = json.loads(data)
    except RecursionError:
        raise UnreadableError(DAMAGED, "it is nested too deep") from None
    except ValueError as error:
        raise UnreadableError(DAMAGED, f"it is no JSON: {error}") from None
    cells = _list_cells(book) if isinstance(book, dict) else []
    if not cells:
        raise UnreadableError(DAMAGED, "it has no cells")
    language = _find_language(book)
    return Document(kind="notebook", read_unit=lambda _: _read_cells(cells, language))


def _list_cells(book: dict[str, object]) -> list[object]:
    """Return a notebook's cells; of the third version's sheets, all of them."""
    sheets = [one for one in _as_list(book.get("worksheets")) if isinstance(one, dict)]
    return _as_list(book.get("cells")) or [cell for one in sheets for cell in _as_list(one.get("cells"))]


def _find_language(book: dict[str, object]) -> str:
    about = book.get("metadata")
    kernel = about.get("kernelspec") if isinstance(about, dict) else None
    language = kernel.get("language") if isinstance(kernel, dict) else None
    return language[:20] if isinstance(language, str) and language.isalnum() else "python"


def _read_cells(cells: Sequence[object], language: str) -> Iterator[str]:
    for number, cell in enumerate(cells, 1):
        if not isinstance(cell, dict):
            continue
        form = str(cell.get("cell_type", "code"))[:20]
        source = _join(cell.get("source", cell.get("input")))
        yield f"--- cell {number}: {form} ---"
        if form == "code":
            yield f"```{language}"
            yield source
            yield "```"
        else:
            yield source
        for output in _as_list(cell.get("outputs")):
            if isinstance(output, dict):
                yield from _read_output(output)


def _read_output(output: dict[str, object]) -> Iterator[str]:
    """Yield an output's text; what is no text is named."""
    if output.get("output_type") in ("error", "pyerr"):
        yield f"[error] {output.get('ename', '')}: {output.get('evalue', '')}"
        yield _COLORS.sub("", "\n".join(map(str, _as_list(output.get("traceback")))))[:_MAX_OUTPUT]
        return
    data = output.get("data")
    forms = data if isinstance(data, dict) else output
    text = next((_join(forms[one]) for one in (*_TEXT_FORMS, "text") if one in forms), "")
    if text:
        yield "[output]"
        yield _COLORS.sub("", text)[:_MAX_OUTPUT].rstrip("\n")
        if len(text) > _MAX_OUTPUT:
            yield f"[{len(text) - _MAX_OUTPUT:,} more characters of this output are left out]"
    for form, value in forms.items():
        if form.startswith("image/") or form in ("png", "jpeg", "svg"):
            yield f"[picture: {form[:40]}, {len(_join(value)) * 3 // 4 // 1024 + 1} kB]"
        elif form == "text/html" and not text:
            yield "[an output in HTML]"


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _join(value: object) -> str:
    """Return a text that may stand as a list of lines."""
    return "".join(map(str, value)) if isinstance(value, list) else value if isinstance(value, str) else ""
