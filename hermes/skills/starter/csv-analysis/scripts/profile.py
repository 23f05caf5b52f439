"""Say what is in each column of a CSV or TSV file: python3 profile.py FILE [ENCODING]"""

import csv
import sys
from collections import Counter

MOST_KEPT = 100_000


def number(text):
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def main():
    path = sys.argv[1]
    encoding = sys.argv[2] if len(sys.argv) > 2 else "utf-8-sig"
    with open(path, newline="", encoding=encoding, errors="replace") as file:
        sample = file.read(20_000)
        file.seek(0)
        try:
            dialect = csv.Sniffer().sniff(sample, delimiters=",;\t|")
        except csv.Error:
            dialect = csv.excel
        rows = csv.reader(file, dialect)
        names = next(rows, [])
        columns = [Counter() for _ in names]
        count, odd = 0, []
        for row in rows:
            count += 1
            if len(row) != len(names):
                odd.append(rows.line_num)
                continue
            for seen, cell in zip(columns, row):
                cell = cell.strip()
                if cell in seen or len(seen) < MOST_KEPT:
                    seen[cell] += 1
    print(f"{count} rows, {len(names)} columns, delimiter {dialect.delimiter!r}")
    if odd:
        print(f"{len(odd)} rows have another number of cells, at lines {odd[:10]}")
    for name, seen in zip(names, columns):
        filled = {cell: times for cell, times in seen.items() if cell}
        numbers = {cell: number(cell) for cell in filled}
        good = [value for value in numbers.values() if value is not None]
        told = [f"filled {sum(filled.values())}/{sum(seen.values())}", f"distinct {len(filled)}"]
        if good and len(good) >= len(filled) / 2:
            told.append(f"numbers {min(good):g} to {max(good):g}")
            strange = [cell for cell, value in numbers.items() if value is None]
            if strange:
                told.append(f"no numbers: {strange[:5]}")
        else:
            told.append(
                "most often: " + ", ".join(f"{cell[:30]!r} x{times}" for cell, times in Counter(filled).most_common(3))
            )
        print(f"{name or '(no name)'}: " + "; ".join(told))


main()
