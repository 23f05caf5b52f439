"""Older and binary workbooks (.xls, .xlsb), by calamine."""

import datetime
from collections.abc import Iterator
from typing import IO

from hermes.media.reader.cell_values import describe_gap, format_number, format_row
from hermes.media.reader.document import Document
from hermes.media.reader.failures import DAMAGED, ENCRYPTED, UnreadableError, import_failure

EXTRA = "documents"


def open_binary_workbook(file: IO[bytes]) -> Document:
    """Return a workbook that is no XML. Raises UnreadableError."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook, PasswordError
    except ImportError as error:
        raise import_failure(error, EXTRA) from None
    try:
        book = CalamineWorkbook.from_filelike(file)
        names = book.sheet_names
    except PasswordError:
        raise UnreadableError(ENCRYPTED) from None
    except (CalamineError, OSError, ValueError) as error:
        raise UnreadableError(DAMAGED, str(error)) from None

    def read_sheet(number: int) -> Iterator[str]:
        try:
            sheet = book.get_sheet_by_index(number - 1)
        except (CalamineError, OSError, ValueError) as error:
            raise UnreadableError(DAMAGED, str(error)) from None
        first_row, first_column = sheet.start or (0, 0)
        last = 0
        for row, values in enumerate(sheet.iter_rows(), first_row + 1):
            cells = {
                column: text for column, value in enumerate(values, first_column + 1) if (text := _format_value(value))
            }
            if not cells:
                continue
            yield from describe_gap(last, row)
            last = row
            yield format_row(cells)

    return Document(
        kind="workbook",
        read_unit=read_sheet,
        unit="sheet",
        count=max(len(names), 1),
        describe_unit=lambda number: names[number - 1][:100],
        unit_names=names,
    )


def _format_value(value: object) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return format_number(repr(value))
    if isinstance(value, datetime.datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S") if value.time() != datetime.time() else value.date().isoformat()
    return str(value) if value is not None else ""
