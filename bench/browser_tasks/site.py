"""The sites of the tasks, on loopback. Pages report what has been done on them, which is how a task is judged."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

_PAGES = Path(__file__).with_name("pages")
_INNER = {"frames/address": "address", "frames/card": "card"}
"""Pages of frames: they have no head and foot of the site's."""
_BELOW = {
    "tabs/voucher": "voucher",
    "checkout/pay": "pay",
    "checkout/review": "review",
}
_OTHERS = {"127.0.0.1": "localhost", "localhost": "127.0.0.1", "a.example": "b.example", "b.example": "a.example"}
"""The two hosts, by the names that a browser knows and by those of as many letters that Hermes' proxy is given."""
PASSWORD = "pass" + "word-4-ann"


class TaskSite:
    """The server's port, and what pages have reported last, by task."""

    def __init__(self) -> None:
        self.port = 0
        self.states: dict[str, str] = {}


@contextmanager
def serve_tasks() -> Iterator[TaskSite]:
    """Serve the sites."""
    site = TaskSite()

    class Handler(_Handler):
        owner = site

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    site.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    owner: TaskSite
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        path = address.path.strip("/")
        if path == "state":
            given = parse_qs(address.query)
            self.owner.states[given["task"][0]] = given["value"][0]
            self._answer("ok")
        elif path == "favicon.ico":
            self._answer("", status=204)
        elif path == "signin/home":
            self._answer(self._compose("signedin" if "signed=ann" in self.headers.get("Cookie", "") else "signin"))
        elif path in _INNER:
            self._answer((_PAGES / f"{_INNER[path]}.html").read_text())
        else:
            self._answer(self._compose(_BELOW.get(path, path)))

    def do_POST(self) -> None:
        given = parse_qs(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())
        is_right = given.get("mail") == ["ann@example.org"] and given.get("password") == [PASSWORD]
        cookie = {"Set-Cookie": "signed=ann; Path=/"} if is_right else {}
        self._answer("", status=303, headers={"Location": "/signin/home", **cookie})

    def _compose(self, name: str) -> str:
        page = _PAGES / f"{name}.html"
        body = (
            page.read_text()
            if name.isalpha() and page.exists()
            else f"<h1>{name.title() or 'Welcome'}</h1><p>Soon.</p>"
        )
        title = body.partition("<h1>")[2].partition("</h1>")[0]
        host, _, port = self.headers.get("Host", "").partition(":")
        other = f"{_OTHERS.get(host, host)}:{port}"
        layout = (_PAGES / "layout.html").read_text()
        return layout.replace("TITLE", title).replace("BODY", body).replace("OTHER", other)

    def _answer(self, text: str, *, status: int = 200, headers: dict[str, str] | None = None) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in {
            "Content-Type": "text/html; charset=utf-8",
            "Cache-Control": "no-store",
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Write nothing."""
