"""Evaluates what a model wants to know of a page by JavaScript, in the page's own world."""

import asyncio

from hermes.browser.cdp import CallTimeoutError, CdpError
from hermes.browser.protocol import EvaluateResult, RemoteObject
from hermes.browser.settling import note_moment, settle
from hermes.browser.tab import Tab
from hermes.core.encoding import to_json
from hermes.core.errors import BrowserError

EVALUATE_SECONDS = 5.0
MAX_CHARACTERS = 5_000
_TO_JSON = """function() { const seen = new WeakSet(); let left = 2000;
  try { return JSON.stringify(this, (key, value) => {
    if (value instanceof Node)
      return '<' + value.nodeName.toLowerCase() + '> ' + (value.textContent || '').trim().slice(0, 80);
    if (typeof value === 'function') return 'function ' + value.name;
    if (value && value.window === value && key) return '<window>';
    if (typeof value === 'bigint') return String(value);
    if (value && typeof value === 'object') { if (seen.has(value) || --left < 0) return '…'; seen.add(value);
      if (value instanceof Map) return [...value.entries()]; if (value instanceof Set) return [...value];
      if (value instanceof NodeList || value instanceof HTMLCollection) return [...value] }
    return value }) } catch (e) { return String(this) } }"""


async def evaluate_expression(tab: Tab, expression: str) -> str:
    """Return what an expression gives, as JSON, cut to a limit; a promise is waited for.

    A script that does not end is stopped. Raises BrowserError with what it throws.
    """
    tab.check_usable()
    before = note_moment(tab)
    params = {
        "expression": expression,
        "awaitPromise": True,
        "userGesture": True,
        "replMode": True,
        "timeout": EVALUATE_SECONDS * 1000,
        "objectGroup": "hermes",
    }
    try:
        found = await tab.run(
            tab.session.call_for(EvaluateResult, "Runtime.evaluate", params, seconds=EVALUATE_SECONDS + 1.0)
        )
        if found is not None and found.result.subtype == "promise":
            promise = {"promiseObjectId": found.result.object_id}
            seconds = EVALUATE_SECONDS
            found = await tab.run(
                tab.session.call_for(EvaluateResult, "Runtime.awaitPromise", promise, seconds=seconds)
            )
        said = "" if found is None else await tab.run(_describe(tab, found))
        await settle(tab, before)
    except CdpError as error:
        # A script that was stopped is told of as a fault of the browser's own.
        raise BrowserError(f"The expression was stopped or cannot be run: {error.reason}") from error
    except CallTimeoutError:
        tab.session.post("Runtime.terminateExecution")
        raise BrowserError(f"The expression has not ended within {EVALUATE_SECONDS:g} seconds.") from None
    except asyncio.CancelledError:
        tab.session.post("Runtime.terminateExecution")
        raise
    finally:
        tab.session.post("Runtime.releaseObjectGroup", {"objectGroup": "hermes"})
    text = said or ""
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}\n[… {len(text)} characters in all]"


async def _describe(tab: Tab, found: EvaluateResult) -> str:
    if found.exception_details is not None:
        thrown = found.exception_details.exception
        reason = (thrown.description if thrown is not None else "") or found.exception_details.text
        if "terminated" in reason:
            raise BrowserError(f"The expression has not ended within {EVALUATE_SECONDS:g} seconds.")
        raise BrowserError(f"The expression has failed: {reason[:500]}")
    return await _describe_value(tab, found.result)


async def _describe_value(tab: Tab, value: RemoteObject) -> str:
    if value.object_id and value.type == "object":
        params = {"functionDeclaration": _TO_JSON, "objectId": value.object_id, "returnByValue": True}
        result = (await tab.session.call_for(EvaluateResult, "Runtime.callFunctionOn", params)).result
        return result.value if isinstance(result.value, str) else value.description
    if value.type == "undefined":
        return "undefined"
    if value.unserializable_value or value.object_id:
        return value.unserializable_value or value.description
    return to_json(value.value).decode()
