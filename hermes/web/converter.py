"""Reads HTML in a process of its own: a job and HTML in, JSON out, the folders to import from as arguments.

A hostile page may make any parser take minutes, or crash it; here that ends a child with a limit of processor time and
memory, which has no environment, no network of ours and no secrets. So what it runs (`markdown`, `hidden`, `writer`)
imports the standard library and selectolax, and of Hermes nothing but each other."""

import json
import sys
from typing import TypedDict
from urllib.parse import urljoin

from hermes.web.html_to_markdown import convert_html

CPU_SECONDS = 2


MEMORY = 1 << 30


_MAX_ROWS = 100


START_PROGRAM = "import sys; sys.path += sys.argv[1:]; from hermes.web.pages import main; sys.exit(main())"
"""The program text that `python -I -S -c` is given."""


class ConversionJob(TypedDict):
    """What to extract from a page at `url`: markdown where `row` is empty, else a list's rows (CSS selectors)."""

    url: str
    row: str
    title: str
    link: str
    snippet: str


def _set_limits() -> None:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def extract_rows(html: str, url: str, job: ConversionJob) -> list[dict[str, str]]:
    """Extract a list's rows: for each element that `job["row"]` selects, the texts that the others select."""
    from selectolax.lexbor import LexborHTMLParser

    found: list[dict[str, str]] = []
    for row in LexborHTMLParser(html, scripting=True).css(job["row"])[:_MAX_ROWS]:
        values: dict[str, str] = {}
        for name in ("title", "link", "snippet"):
            node = row.css_first(job[name])
            if node is not None:
                values[name] = urljoin(url, node.attributes.get("href") or "") if name == "link" else node.text()
        found.append(values)
    return found


def main() -> int:
    """Run the job from standard input: a line with the job as JSON, then the HTML."""
    _set_limits()
    first, _, html = sys.stdin.buffer.read().decode("utf-8", "replace").partition("\n")
    job: ConversionJob = json.loads(first)
    made = extract_rows(html, job["url"], job) if job["row"] else convert_html(html, job["url"])
    sys.stdout.buffer.write(json.dumps(made).encode())
    return 0
