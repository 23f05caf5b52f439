"""Say what is in each column of a CSV or TSV file: python3 profile.py FILE [ENCODING]."""

import csv
import sys
from collections import Counter
from collections.abc import Sequence

MOST_KEPT = 100_000


def number(text: str) -> float | None:
    """The number that a cell holds, thousands parted by commas or not."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def about(name: str, seen: Counter[str]) -> str:
    """A line about one column."""
    filled = Counter({cell: times for cell, times in seen.items() if cell})
    numbers = [value for cell in filled if (value := number(cell)) is not None]
    told = [f"filled {sum(filled.values())}/{sum(seen.values())}", f"distinct {len(filled)}"]
    if numbers and len(numbers) >= len(filled) / 2:
        told.append(f"numbers {min(numbers):g} to {max(numbers):g}")
        strange = [cell for cell in filled if number(cell) is None]
        told += [f"no numbers: {strange[:5]}"] if strange else []
    else:
        told.append("most often: " + ", ".join(f"{cell[:30]!r} x{times}" for cell, times in filled.most_common(3)))
    return f"{name or '(no name)'}: " + "; ".join(told)


def main(arguments: Sequence[str]) -> None:
    """Read the file once and write what was found."""
    encoding = arguments[1] if len(arguments) > 1 else "utf-8-sig"
    with open(arguments[0], newline="", encoding=encoding, errors="replace") as file:
        sample = file.read(20_000)
        file.seek(0)
        try:
            delimiter = csv.Sniffer().sniff(sample, delimiters=",;\t|").delimiter
        except csv.Error:
            delimiter = ","
        rows = csv.reader(file, delimiter=delimiter)
        names = next(rows, [])
        columns: list[Counter[str]] = [Counter() for _ in names]
        count, odd = 0, []
        for row in rows:
            count += 1
            if len(row) != len(names):
                odd.append(rows.line_num)
                continue
            for seen, cell in zip(columns, map(str.strip, row), strict=True):
                if cell in seen or len(seen) < MOST_KEPT:
                    seen[cell] += 1
    lines = [f"{count} rows, {len(names)} columns, delimiter {delimiter!r}"]
    lines += [f"{len(odd)} rows have another number of cells, at lines {odd[:10]}"] if odd else []
    lines += [about(name, seen) for name, seen in zip(names, columns, strict=True)]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
