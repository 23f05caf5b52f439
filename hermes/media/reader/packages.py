"""The parts of an Office Open XML package: relations between them, and its properties."""

import posixpath

from hermes.media.reader.archives import Archive
from hermes.media.reader.xml_events import EventStream, read_whole


class Relation:
    """A link from one part to another, or to an address outside."""

    def __init__(self, kind: str, target: str, *, is_external: bool) -> None:
        self.kind = kind
        """The last word of its type: `slide`, `header`, `comments`."""
        self.target = target
        self.is_external = is_external


def read_relations(archive: Archive, part: str) -> dict[str, Relation]:
    """Return the relations of a part by their ids; none where it has none."""
    folder, name = posixpath.split(part)
    found: dict[str, Relation] = {}
    data = archive.read_part(posixpath.join(folder, "_rels", f"{name}.rels"))
    for tag, attributes in read_whole(data).walk():
        if tag == "Relationship":
            target = attributes.get("Target", "")
            is_external = attributes.get("TargetMode") == "External"
            if not is_external:
                target = posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
            word = attributes.get("Type", "").rpartition("/")[2]
            found[attributes.get("Id", "")] = Relation(word, target, is_external=is_external)
    return found


def find_targets(relations: dict[str, Relation], kind: str) -> list[str]:
    """Return the parts of one kind."""
    return [one.target for one in relations.values() if one.kind == kind and not one.is_external]


def find_main_part(archive: Archive, usual: str) -> str:
    """Return the name of a package's main part."""
    found = find_targets(read_relations(archive, ""), "officeDocument")
    return found[0] if found and archive.has_part(found[0]) else usual


def read_title(archive: Archive) -> str:
    """Return the title in a package's properties; empty where there is none."""
    return find_text(read_whole(archive.read_part("docProps/core.xml")), "title")


def find_text(events: EventStream, element: str) -> str:
    """Return the text of the first element of this name on one line; empty where there is none."""
    return next((" ".join(events.read_text().split()) for name, _ in events.walk() if name == element), "")
