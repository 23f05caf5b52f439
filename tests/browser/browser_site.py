"""A site on loopback with what pages are made of; `localhost` and `127.0.0.1` are two sites of it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

_INDEX = """<title>Shop</title><nav><a href="/form">Form</a> <a href="/table">Table</a></nav><h1>Shop</h1>
<p>Ten per cent off <a href="/sale">everything</a> today.</p>
<ul><li>Apples <button onclick="this.textContent='Added'">Add apples</button><li>Pears <button>Add pears</button></ul>
<div onclick="document.title='clicked'" style="cursor:pointer;width:100px">Fake button</div>
<a href="/form" target="_blank">New tab</a> <a href="/file.csv" download>Get file</a>
<div style="display:none">HIDDEN display</div><div aria-hidden="true">HIDDEN aria</div>
<div style="opacity:0">HIDDEN opacity</div><div style="font-size:0">HIDDEN size</div>
<div style="position:absolute;left:-9999px">HIDDEN offscreen</div><div style="color:transparent">HIDDEN colour</div>
<div style="height:0;overflow:hidden">HIDDEN clip</div><div style="visibility:hidden">HIDDEN visibility</div>"""
_FORM = """<title>Form</title><form onsubmit="event.preventDefault();send()">
<label>Name <input id="n" required></label> <label>Password <input id="p" type="password" value="hunter2secret"></label>
<label>Card <input id="c" autocomplete="cc-number" value="4111222233334444"></label>
<label>Colour <select id="s"><option>red<option>blue<option value="g">green</select></label>
<label>Notes <textarea id="t">old</textarea></label><label>Day <input id="d" type="date"></label>
<div id="e" contenteditable="true" aria-label="Message">hello</div>
<label><input id="k" type="checkbox"> Agree</label><button>Send</button></form>
<button onclick="p.type='text'">Show password</button><p id="o"></p><p id="keys"></p><script>
n.onkeyup = () => keys.textContent = 'keys ' + (keys.n = (keys.n || 0) + 1);
function send() { o.textContent = ['Sent', n.value, p.value.length, s.value, t.value, d.value, e.textContent,
k.checked].join('/') }</script>"""


def _build_table(count: int) -> str:
    rows = "".join(
        f'<tr><td>{n}</td><td>Item {n}</td><td><a href="/item/{n}">open</a></td>'
        f"<td><button onclick=\"this.closest('tr').remove()\">Delete</button></td></tr>"
        for n in range(count)
    )
    return f"<title>Table</title><h1>Items</h1><table>{rows}</table><h2>The end</h2>"


_ENDLESS = """<title>Endless</title><h1>Feed</h1><ul id="l"></ul><div id="end">Loading</div><script>
let n = 0, busy = false; async function more() { if (busy) return; busy = true;
const names = await (await fetch('/more?from=' + n)).json();
for (const name of names) { const i = document.createElement('li');
i.style.height = '60px'; i.textContent = name; l.append(i); n++ }
busy = false } new IntersectionObserver(e => e[0].isIntersecting && more()).observe(end); </script>"""
_FRAMES = """<title>Frames</title><h1>Frames</h1><p style="height:30px">Top</p>
<iframe src="/inner?name=near" title="near" width="400" height="120"></iframe>
<iframe src="http://localhost:{port}/inner?name=far" title="far" width="400" height="120"></iframe>"""
_INNER = """<title>Inner</title><p>Inside {name}</p><label>Box {name} <input></label>
<button onclick="document.querySelector('p').textContent='pressed {name}: ' + document.querySelector('input').value">
Press {name}</button>"""
_DEEP = """<title>Deep</title><h1>Deep</h1><iframe src="http://localhost:{port}/middle" width="600" height="400">
</iframe>"""
_MIDDLE = """<title>Middle</title><p style="height:40px">Middle</p>
<iframe src="http://127.0.0.1:{port}/inner?name=deep" width="500" height="200"></iframe>"""
_SHADOW = """<title>Shadow</title><open-part></open-part><closed-part></closed-part><p id="o"></p><script>
for (const mode of ['open', 'closed']) customElements.define(mode + '-part', class extends HTMLElement {
constructor() { super(); const r = this.attachShadow({mode});
r.innerHTML = `<button>In ${mode}</button><input aria-label="Field ${mode}">`;
const [button, field] = r.children;
button.onclick = () => o.textContent = 'pressed ' + mode + ' ' + field.value } })</script>"""
_DIALOGS = """<title>Dialogs</title><button onclick="alert('hello');o.textContent='alerted'">Alert</button>
<button onclick="o.textContent='confirm '+confirm('sure?')">Confirm</button>
<button onclick="o.textContent='prompt '+prompt('name?','Ann')">Prompt</button>
<a href="/" id="a">Leave</a><button onclick="window.onbeforeunload=()=>'stay'">Guard</button><p id="o"></p>"""
_DRAG = """<title>Drag</title><style>.b{width:120px;height:60px;border:1px solid;margin:20px}</style>
<div class="b" draggable="true" ondragstart="event.dataTransfer.setData('text','card')">Card</div>
<button class="b" ondragover="event.preventDefault()" ondrop="drop(event)">Target</button>
<button class="b" id="m" style="position:relative">Slider</button><p id="o"></p><script>
function drop(e) { e.preventDefault(); o.textContent = 'dropped ' + e.dataTransfer.getData('text') }
let from = 0; m.onmousedown = e => { from = e.clientX;
document.onmousemove = e => m.style.left = (e.clientX - from) + 'px';
document.onmouseup = e => { document.onmousemove = null; o.textContent = 'moved ' + (e.clientY < 120) } }</script>"""
_UPLOAD = """<title>Upload</title><label>File <input type="file" id="f" onchange="show(this)"></label>
<input type="file" id="g" style="display:none" multiple onchange="show(this)">
<button onclick="g.click()">Choose files</button><p id="o"></p><script>
async function show(f) { const t = await Promise.all([...f.files].map(async x => x.name + '=' + await x.text()));
o.textContent = f.id + ' got ' + t.join(', ') }</script>"""
_LOGIN = """<title>Sign in</title><form method="post" action="/login"><label>User <input name="user"></label>
<label>Password <input name="password" type="password"></label><button>Sign in</button></form>"""
_COVERED = """<title>Covered</title><button id="b" onclick="o.textContent='bought'">Buy</button><p id="o"></p>
<div role="dialog" aria-label="Cookies" id="c" style="position:fixed;inset:0;background:#fff8">
<p>We use cookies</p><button style="margin-top:200px" onclick="c.remove()">Accept cookies</button></div>
<button disabled>Off</button>"""
_POPUPS = """<title>Popups</title><button onclick="for (let i = 0; i < {count}; i++) window.open('/inner?name=' + i)">
Open many</button>"""
_SECRET = "<title>Account</title><h1>Welcome {user}</h1>"
_BUSY = """<title>Busy</title><button onclick="while (true);">Loop</button>
<button onclick="setTimeout(() => o.textContent = 'it came', 400)">Later</button><p id="o">nothing yet</p>
<button onclick="console.log('said', {a: 1}); console.error('bad thing')">Talk</button>"""
_LABELS = """<title>Labels</title>
<style>.real{display:none} .off{position:absolute;opacity:0;width:1px;height:1px}</style>
<input class="real" type="checkbox" id="x" onchange="o.textContent='x '+this.checked">
<label for="x" style="cursor:pointer">News</label>
<a href="/">Seen<span style="opacity:0"> HIDDEN</span></a> <button><span class="off">Close</span></button>
<label><input class="off" type="checkbox" onchange="o.textContent='y '+this.checked"> Terms</label><p id="o"></p>"""
_LONG = """<!doctype html><title>Long</title><label>Town <input id="t" role="combobox"></label><div id="l"></div>
<div style="cursor:grab;width:90px" id="g">Box</div><div id="z">Put it here</div>
<p><label><input type="checkbox"> Sure</label></p><p id="o"></p>
<div style="height:3000px">Much</div><button onclick="o.textContent='pressed far'">Far</button><script>
t.oninput = () => setTimeout(() => l.innerHTML = '<div role="option">York</div>', 200);
let held = false; g.onpointerdown = () => held = true;
onpointerup = e => { if (held && e.target === z) o.textContent = 'put'; held = false }</script>"""
_PAGES = {
    "/": _INDEX,
    "/form": _FORM,
    "/table": _build_table(300),
    "/long-table": _build_table(420),
    "/endless": _ENDLESS,
    "/frames": _FRAMES,
    "/inner": _INNER,
    "/deep": _DEEP,
    "/middle": _MIDDLE,
    "/shadow": _SHADOW,
    "/dialogs": _DIALOGS,
    "/drag": _DRAG,
    "/upload": _UPLOAD,
    "/login": _LOGIN,
    "/covered": _COVERED,
    "/popups": _POPUPS,
    "/busy": _BUSY,
    "/labels": _LABELS,
    "/long": _LONG,
}
_FILLED = ("/deep", "/middle", "/frames", "/inner", "/popups")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_arguments: object) -> None:
        return

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        given = {name: values[0] for name, values in parse_qs(address.query).items()}
        if address.path == "/file.csv":
            head = {"Content-Disposition": 'attachment; filename="../../evil.csv"'}
            self._send(b"a,b\n1,2\n", "text/csv", head=head)
        elif address.path == "/more":
            begin = int(given["from"])
            names = ", ".join(f'"Post {n}"' for n in range(begin, min(begin + 20, 200)))
            self._send(f"[{names}]".encode(), "application/json")
        elif address.path == "/account":
            user = self.headers.get("Cookie", "").partition("user=")[2] or "nobody"
            self._send(_SECRET.format(user=user).encode(), "text/html")
        elif address.path == "/never":
            self.server.is_stopped.wait(20)  # type: ignore[attr-defined]
        elif address.path == "/unfinished":
            self._send_unfinished()
        elif address.path in _PAGES:
            page = _PAGES[address.path]
            if address.path in _FILLED:
                page = page.replace("{port}", str(self.server.server_port))  # type: ignore[attr-defined]
                for name, value in {"name": "", "count": "1000", **given}.items():
                    page = page.replace(f"{{{name}}}", value)
            self._send(page.encode(), "text/html")
        else:
            self._send(b"<title>Lost</title><h1>Not here</h1>", "text/html", 404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
        user = parse_qs(body).get("user", [""])[0]
        self._send(b"", "text/html", 303, {"Location": "/account", "Set-Cookie": f"user={user}; Path=/"})

    def _send(self, body: bytes, kind: str, status: int = 200, head: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        for name, value in (head or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _send_unfinished(self) -> None:
        """Send the beginning of a page that never ends."""
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        chunk = b"<title>Unfinished</title><h1>Begun</h1>" + b"<p>line</p>" * 100
        try:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            self.wfile.flush()
            while not self.server.is_stopped.wait(0.1):  # type: ignore[attr-defined]
                self.wfile.write(b"b\r\n<p>more</p>\r\n")
                self.wfile.flush()
        except OSError:
            return
        self.close_connection = True


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.is_stopped = threading.Event()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a browser that has gone."""


@contextmanager
def serve_site() -> Iterator[str]:
    """Serve the site, and give its address."""
    server = _Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.is_stopped.set()
        server.shutdown()
        server.server_close()
        thread.join()
