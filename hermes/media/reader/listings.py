"""Archives (.zip and what is made like them): their contents as a list."""

from collections.abc import Iterator

from hermes.media.reader.archives import Archive
from hermes.media.reader.document import Document


def list_archive(archive: Archive) -> Document:
    """Return the list of an archive's files. Nothing is unpacked."""

    def read_lines(_: int) -> Iterator[str]:
        files = [one for one in archive.entries if not one.is_dir()]
        total, packed = sum(one.file_size for one in files), sum(one.compress_size for one in files)
        yield f"{len(files):,} files, {total:,} bytes, {packed:,} packed"
        for one in archive.entries:
            year, month, day = one.date_time[:3]
            name = " ".join(one.filename.split())[:500]
            lock = ", encrypted" if one.flag_bits & 1 else ""
            size = "folder" if one.is_dir() else f"{one.file_size:,} bytes"
            yield f"- {name} ({size}, {year}-{month:02}-{day:02}{lock})"

    return Document(kind="archive", read_unit=read_lines)
