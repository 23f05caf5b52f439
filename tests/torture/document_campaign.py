"""Documents of many kinds against the words they were made of: 300 files, English, Chinese and Arabic, with tables.

Ours are made by the writers of `tests/media/made_files.py`, PDFs by chromium and LibreOffice, and other forms by
LibreOffice from ours. Words count in their order after NFKC, Chinese ones by characters.
"""

import argparse
import asyncio
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from hermes.core.errors import ToolError
from hermes.media.documents import DocumentWindow, read_document
from hermes.media.recognition import HEAD_BYTES, recognize_file
from tests.media.made_files import (
    LANGUAGES,
    WRITERS,
    convert_files,
    list_texts,
    make_blocks,
    measure_share,
    page_text,
    print_pdf,
)

SHEETS = ("xls", "ods", "xlsx")
CONVERTED = ("docx", "odt", "pdf", *SHEETS)
"""What LibreOffice makes of a document or a workbook of ours."""
LEAST, LEAST_ARABIC_PDF = 0.99, 0.95


async def read_all(path: Path) -> str:
    """Return the text of a document, window by window."""
    texts: list[str] = []
    with path.open("rb") as file:
        kind = recognize_file(file.read(HEAD_BYTES), path.name)
        window = DocumentWindow(lines=2_000)
        while True:
            found = await read_document(file.fileno(), window, kind)
            texts.append(found.text)
            if found.next_unit:
                window = DocumentWindow(lines=2_000, first=found.next_unit)
            elif found.next_offset:
                window = DocumentWindow(lines=2_000, first=found.first, last=found.last, offset=found.next_offset)
            else:
                return "\n".join(texts)


def make_all(folder: Path, count: int, seed: int) -> list[tuple[Path, str, str, int]]:
    """Make the files; return each with its kind, its language, and the seed of its blocks."""
    made: list[tuple[Path, str, str, int]] = []
    kinds = [*WRITERS, "chromium.pdf", *(f"office.{one}" for one in CONVERTED)]
    sources: dict[str, list[Path]] = defaultdict(list)
    for number in range(count):
        kind, language = kinds[number % len(kinds)], LANGUAGES[number // len(kinds) % len(LANGUAGES)]
        own = seed + number
        blocks = make_blocks(language, own)
        if kind in WRITERS:
            path = folder / f"{number}.{kind}"
            path.write_bytes(WRITERS[kind](blocks, language))
        elif kind == "chromium.pdf":
            path = folder / f"{number}.pdf"
            print_pdf(page_text(blocks, language), path)
        else:
            form = kind.partition(".")[2]
            source = folder / f"{number}.{'xlsx' if form in SHEETS else 'docx'}"
            source.write_bytes(WRITERS[source.suffix[1:]](blocks, language))
            sources[form].append(source)
            path = folder / form / f"{number}.{form}"
        made.append((path, kind, language, own))
    for form, found in sources.items():
        (folder / form).mkdir(exist_ok=True)
        convert_files(found, form, folder / form)
    return made


async def main() -> int:
    """Make the files, read them, print the shares; return the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    shares: dict[tuple[str, str], list[float]] = defaultdict(list)
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        for path, kind, language, own in make_all(folder, args.count, args.seed):
            expected = list_texts(make_blocks(language, own))
            try:
                share = measure_share(expected, await read_all(path))
            except (ToolError, OSError) as error:
                failed.append(f"{path.name} {kind} {language}: {error}")
                share = 0.0
            shares[kind, language].append(share)
    for (kind, language), found in sorted(shares.items()):
        print(
            f"{kind:14} {language:8} {len(found):4} files  mean {sum(found) / len(found):.4f}  least {min(found):.4f}"
        )
    arabic = [
        one for (kind, language), found in shares.items() if "pdf" in kind and language == "arabic" for one in found
    ]
    others = [
        one
        for (kind, language), found in shares.items()
        if not ("pdf" in kind and language == "arabic")
        for one in found
    ]
    print(f"all but Arabic PDFs: {sum(others) / len(others):.4f} of the words of {len(others)} files (asked {LEAST})")
    if arabic:
        print(
            f"Arabic PDFs: {sum(arabic) / len(arabic):.4f} of the words of {len(arabic)} files",
            f"(asked {LEAST_ARABIC_PDF})",
        )
    print(*failed, sep="\n")
    is_good = not failed and sum(others) / len(others) >= LEAST
    return 0 if is_good and (not arabic or sum(arabic) / len(arabic) >= LEAST_ARABIC_PDF) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
