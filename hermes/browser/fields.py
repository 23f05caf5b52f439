"""Fields of forms: writing into them, choosing from lists, giving them files."""

from collections.abc import Sequence

from hermes.browser.cdp import CdpError
from hermes.browser.keyboard import press_key, write_text
from hermes.browser.pointer import find_point, read_state, send_click
from hermes.browser.refs import RefTarget
from hermes.browser.settling import act, wait_for_suggestions
from hermes.browser.tab import Tab
from hermes.browser.target_session import TargetSession
from hermes.browser.uploads import copy_files
from hermes.core.errors import BrowserError

_CHOOSER_SECONDS = 3.0
_FOCUS = """function() {
  const e = this, kind = (e.type || '').toLowerCase();
  if (!e.isConnected) return 'gone';
  if (e.disabled) return 'disabled';
  if (e.tagName === 'SELECT') return 'select';
  if (e.tagName === 'INPUT' && ['checkbox', 'radio', 'button', 'submit', 'reset', 'image'].includes(kind))
    return 'other';
  if (e.tagName === 'INPUT' && kind === 'file') return 'file';
  if (e.readOnly) return 'readonly';
  if (e.tagName === 'INPUT' && ['date', 'time', 'month', 'week', 'datetime-local', 'color', 'range'].includes(kind))
    return 'set';
  e.scrollIntoView({block: 'nearest', inline: 'nearest', behavior: 'instant'});
  e.focus();
  if (e.tagName === 'INPUT' || e.tagName === 'TEXTAREA') {
    const old = e.value; e.select(); return old ? 'full' : 'empty' }
  if (!e.isContentEditable) { const a = (e.getRootNode().activeElement || document.activeElement);
    return a && (/^(INPUT|TEXTAREA)$/.test(a.tagName) || a.isContentEditable) && e.contains(a) ? 'inner' : 'other' }
  const all = document.createRange(); all.selectNodeContents(e);
  const chosen = e.ownerDocument.getSelection(); chosen.removeAllRanges(); chosen.addRange(all);
  return e.textContent ? 'full' : 'empty' }"""
_SET_VALUE = """function(value) {
  const own = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value');
  own.set.call(this, value);
  for (const name of ['input', 'change']) this.dispatchEvent(new Event(name, {bubbles: true, composed: true}));
  return this.value }"""
_SELECT = """function(wanted) {
  const list = this.tagName === 'OPTION' ? this.closest('select') : this;
  if (!this.isConnected) return {state: 'gone'};
  if (!list || list.tagName !== 'SELECT') return {state: 'other'};
  if (list.disabled) return {state: 'disabled'};
  const clean = text => text.replace(/\\s+/g, ' ').trim();
  const options = [...list.options];
  const nameOf = o => clean(o.label || o.text);
  const found = wanted.map(one => options.find(o => nameOf(o) === clean(one)) || options.find(o => o.value === one)
    || options.find(o => nameOf(o).toLowerCase() === clean(one).toLowerCase()));
  const missing = wanted.filter((one, n) => !found[n] || found[n].disabled);
  if (missing.length || (wanted.length > 1 && !list.multiple))
    return {state: missing.length ? 'missing' : 'single', options: options.slice(0, 60).map(nameOf)};
  if (list.multiple) options.forEach(o => { o.selected = found.includes(o) });
  else list.selectedIndex = options.indexOf(found[0]);
  for (const name of ['input', 'change']) list.dispatchEvent(new Event(name, {bubbles: true, composed: true}));
  return {state: 'done'} }"""
_FILE_STATE = """function() { if (!this.isConnected) return 'gone';
  if (this.tagName !== 'INPUT' || this.type !== 'file') return 'other';
  return this.disabled ? 'disabled' : this.multiple ? 'many' : 'one' }"""


async def type_text(tab: Tab, ref: str, text: str, *, submit: bool = False, append: bool = False) -> None:
    """Write a text into a field in the place of what it holds, or after it, and wait for what follows.

    `submit` presses Enter then. Raises BrowserError.
    """
    await act(tab, _type(tab, ref, text, submit=submit, append=append))
    if text and not submit and tab.find_obstacle() is None and tab.find_target(ref)[0].label.startswith("combobox"):
        await wait_for_suggestions(tab)


async def _type(tab: Tab, ref: str, text: str, *, submit: bool, append: bool) -> None:
    target, session = tab.find_target(ref)
    state = await read_state(session, target, ref, _FOCUS)
    if state == "set":
        said = await session.call_on_node(target.node_id, target.frame_id, _SET_VALUE, text)
        if text and not said:
            raise BrowserError(f"{ref} {target.label} does not take {text[:40]!r}: dates are like 2025-12-31.")
    elif state in ("full", "empty", "inner"):
        if append:
            await press_key(tab, "End")
        elif state == "full" and not text:
            await press_key(tab, "Delete")
        await write_text(tab, text)
    else:
        raise BrowserError(_explain_refusal(ref, target, state))
    if submit:
        await press_key(tab, "Enter")


def _explain_refusal(ref: str, target: RefTarget, state: object) -> str:
    match state:
        case "disabled":
            return f"{ref} {target.label} is disabled."
        case "readonly":
            return f"{ref} {target.label} is read only."
        case "select":
            return f"{ref} {target.label} is a list to choose from: use browser_select."
        case "file":
            return f"{ref} {target.label} takes files: use browser_upload."
    return f"{ref} {target.label} is no field for text."


async def select_options(tab: Tab, ref: str, values: Sequence[str]) -> None:
    """Choose options of a list by their texts or values, and wait for what follows. Raises BrowserError."""
    await act(tab, _select(tab, ref, values))


async def _select(tab: Tab, ref: str, values: Sequence[str]) -> None:
    target, session = tab.find_target(ref)
    try:
        said = await session.call_on_node(target.node_id, target.frame_id, _SELECT, [*values])
    except CdpError:
        said = {"state": "gone"}
    state = said.get("state") if isinstance(said, dict) else ""
    if state == "done":
        return
    if state == "gone":
        raise BrowserError(f"{ref} is stale: {target.label} is gone. Take a new browser_snapshot.")
    if state == "disabled":
        raise BrowserError(f"{ref} {target.label} is disabled.")
    if state == "other":
        raise BrowserError(
            f"{ref} {target.label} is a list of the page's own: use browser_click on it and its options."
        )
    options = said.get("options") if isinstance(said, dict) else None
    listed = ", ".join(str(one)[:40] for one in options) if isinstance(options, list) else ""
    reason = "takes one option only" if state == "single" else "has no such option"
    raise BrowserError(f"{ref} {target.label} {reason}. Its options are: {listed}.")


async def upload_files(tab: Tab, ref: str, paths: Sequence[str]) -> None:
    """Give files to a field, or to the button that asks for them. The paths are absolute, and were checked.

    Raises BrowserError.
    """
    await act(tab, _upload(tab, ref, paths))


async def _upload(tab: Tab, ref: str, paths: Sequence[str]) -> None:
    target, session = tab.find_target(ref)
    state = await read_state(session, target, ref, _FILE_STATE)
    node_id = target.node_id
    if state == "disabled":
        raise BrowserError(f"{ref} {target.label} is disabled.")
    if state == "other":
        node_id, session, state = await _ask_for_chooser(tab, ref, target)
    if len(paths) > 1 and state == "one":
        raise BrowserError(f"{ref} {target.label} takes one file only.")
    if tab.is_remote:
        raise BrowserError("Files cannot be uploaded in a remote browser.", "The person can upload it themselves.")
    files = [*paths] if tab.upload_folder is None else await copy_files(tab.upload_folder, paths)
    await session.call("DOM.setFileInputFiles", {"files": files, "backendNodeId": node_id})
    tab.chooser = None


async def _ask_for_chooser(tab: Tab, ref: str, target: RefTarget) -> tuple[int, TargetSession, str]:
    """Click what asks for files, and return the field that it asks for."""
    tab.chooser = None
    await send_click(tab, await find_point(tab, ref))
    await tab.activity.wait_until(lambda: tab.chooser is not None, _CHOOSER_SECONDS)
    chooser = tab.chooser
    if chooser is None or not chooser.backend_node_id:
        raise BrowserError(f"{ref} {target.label} takes no files.")
    session = tab.chooser_session or tab.session
    return chooser.backend_node_id, session, "many" if chooser.mode == "selectMultiple" else "one"
