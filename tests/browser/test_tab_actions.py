"""What is done on pages of the test site, by a real browser."""

import asyncio
import re
from pathlib import Path

import pytest

from hermes.browser import evaluation, fields, keyboard, navigation, pictures, pointer, scrolling, waiting
from hermes.browser.pointer import CoveredError
from hermes.browser.tab import DialogOpenError, PageCrashedError
from hermes.core.errors import BrowserError
from tests.browser.page_driver import PageDriver

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.needs("chromium-headless-shell")]


async def test_a_form_is_filled_in_and_sent(driver: PageDriver) -> None:
    await driver.open("/form")
    assert "keys 3" in await driver.type("Name", "Bob")
    await driver.type("Day", "2025-01-02")
    await driver.type("Message", "Hi there")
    await driver.type("Notes", "one\ntwo")
    await driver.click("Agree")
    await fields.select_options(await driver.tab(), driver.ref("Colour"), ["green"])
    assert '= "green"' in await driver.report()
    assert "Sent/Bob/13/g/one\ntwo/" not in driver.told
    assert "Sent/Bob/13/g/one two/2025-01-02/Hi there/true" in await driver.click("Send")


async def test_what_cannot_be_done_is_said_with_its_reason(driver: PageDriver) -> None:
    await driver.open("/form")
    tab = await driver.tab()
    with pytest.raises(BrowserError, match=r"has no such option\. Its options are: red, blue, green"):
        await fields.select_options(tab, driver.ref("Colour"), ["pink"])
    with pytest.raises(BrowserError, match="use browser_select"):
        await pointer.click(tab, driver.ref("Colour"))
    with pytest.raises(BrowserError, match="is no field for text"):
        await fields.type_text(tab, driver.ref("Send"), "x")
    with pytest.raises(BrowserError, match=r"There is no e99999"):
        await pointer.click(tab, "e99999")
    with pytest.raises(BrowserError, match="is no ref"):
        await pointer.click(tab, "the button")
    with pytest.raises(BrowserError, match="There is no key"):
        await keyboard.press_chord(tab, "Ctrl+Nothing")


async def test_a_covered_element_names_its_cover(driver: PageDriver) -> None:
    await driver.open("/covered")
    with pytest.raises(CoveredError, match=r'"Buy" is covered by e\d+ dialog "Cookies"'):
        await pointer.click(await driver.tab(), driver.ref("Buy"))
    with pytest.raises(BrowserError, match="is disabled"):
        await pointer.click(await driver.tab(), driver.ref("Off"))
    await driver.click("Accept cookies")
    assert "+ bought" in await driver.click("Buy")


async def test_a_dialog_blocks_until_it_is_answered(driver: PageDriver) -> None:
    await driver.open("/dialogs")
    tab = await driver.tab()
    for name, accept, text, outcome in (
        ("Alert", True, "", "alerted"),
        ("Confirm", True, "", "confirm true"),
        ("Confirm", False, "", "confirm false"),
        ("Prompt", True, "Zed", "prompt Zed"),
    ):
        assert "browser_dialog" in await driver.click(name)
        with pytest.raises(DialogOpenError):
            await pointer.click(tab, driver.ref("Alert"))
        await tab.answer_dialog(accept=accept, text=text)
        assert f"+ {outcome}" in await driver.report()
    await driver.click("Guard")
    assert "beforeunload dialog" in await driver.click("Leave")
    await tab.answer_dialog(accept=False)
    assert "Shop" not in await driver.report()


async def test_keys_and_sign_in(driver: PageDriver) -> None:
    await driver.open("/login")
    await driver.type("User", "anna")
    await keyboard.press_chord(await driver.tab(), "Backspace")
    assert "/account" in await driver.type("Password", "a secret word", submit=True)
    assert "# Welcome ann\n" in f"{driver.told}\n"
    await navigation.go_back(await driver.tab())
    assert "Sign in" in await driver.report()


async def test_dragging_by_html_and_by_the_mouse_alone(driver: PageDriver) -> None:
    await driver.open("/drag")
    tab = await driver.tab()
    await pointer.drag(tab, driver.ref("Card"), driver.ref("Target"))
    assert "dropped card" in await driver.report()
    await pointer.drag(tab, driver.ref("Slider"), driver.ref("Card"))
    assert "moved true" in await driver.report()


async def test_files_are_given_to_fields_and_to_buttons_that_ask(driver: PageDriver, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("content")
    await driver.open("/upload")
    tab = await driver.tab()
    for name, outcome in (("File", "f got a.txt=content"), ("Choose files", "g got a.txt=content")):
        await fields.upload_files(tab, driver.ref(name), [str(tmp_path / "a.txt")])
        assert outcome in await driver.report()
    assert "asks for a file" in await driver.click("Choose files")


async def test_downloads_get_safe_names_and_no_right_to_run(driver: PageDriver) -> None:
    await driver.open("/")
    assert "downloaded evil.csv (8 bytes)" in await driver.click("Get file")
    (stored,) = driver.downloads.iterdir()
    assert (stored.name, stored.stat().st_mode & 0o777) == ("evil.csv", 0o600)


async def test_scrolling_shows_what_is_new(driver: PageDriver) -> None:
    assert "Post 19" in await driver.open("/endless")
    place = await scrolling.scroll(await driver.tab(), down=True)
    told = await driver.report(scrolled=True)
    assert place.moved
    assert "+ - Post 20" in told
    assert "- Post 19" not in told


async def test_an_element_far_below_is_clicked(driver: PageDriver) -> None:
    await driver.open("/long")
    assert "pressed far" in await driver.click("Far")


async def test_suggestions_are_waited_for(driver: PageDriver) -> None:
    await driver.open("/long")
    assert " York" in await driver.type("Town", "Yo")


async def test_what_takes_a_thing_that_is_dragged_has_a_ref(driver: PageDriver) -> None:
    told = await driver.open("/long")
    (place,) = re.findall(r"(e\d+) Put it here", told)
    await pointer.drag(await driver.tab(), driver.ref("Box"), place)
    assert "put" in (await driver.report()).splitlines()[-1]


async def test_scrolling_goes_on_until_words_are_there(driver: PageDriver) -> None:
    await driver.open("/endless")
    tab = await driver.tab()
    assert (await scrolling.scroll_until(tab, "post 70", down=True)).moved
    assert "- Post 70" in (await driver.reporter.describe_page(tab, find="Post 70")).text
    assert not (await scrolling.scroll_until(tab, "Post 5", down=True)).moved


async def test_waiting_for_a_text_and_for_its_end(driver: PageDriver) -> None:
    await driver.open("/busy")
    tab = await driver.tab()
    await driver.click("Later")
    assert await waiting.wait_for_text(tab, "it came", gone=False, seconds=10)
    assert await waiting.wait_for_text(tab, "nothing yet", gone=True, seconds=10)
    assert not await waiting.wait_for_text(tab, "never", gone=False, seconds=0.1)
    assert await waiting.wait_for_load(tab, 5)


async def test_scripts_of_ours_are_bounded(driver: PageDriver) -> None:
    await driver.open("/busy")
    tab = await driver.tab()
    assert "1 error in the console" in await driver.click("Talk")
    assert [one.text for one in tab.console.messages][-2:] == ["said Object", "bad thing"]
    assert await evaluation.evaluate_expression(tab, "({a: [1, document.body.tagName], b: new Set([2])})") == (
        '{"a":[1,"BODY"],"b":[2]}'
    )
    assert await evaluation.evaluate_expression(tab, "Promise.resolve('x'.repeat(9000))") == (
        '"' + "x" * 4_999 + "\n[… 9002 characters in all]"
    )
    with pytest.raises(BrowserError, match="nope is not defined"):
        await evaluation.evaluate_expression(tab, "nope()")


async def test_stopping_leaves_the_page_usable(driver: PageDriver) -> None:
    await driver.open("/busy")
    tab = await driver.tab()
    for work in (
        navigation.navigate(tab, f"{driver.site}/never"),
        evaluation.evaluate_expression(tab, "while (true);"),
        waiting.wait_for_text(tab, "never", gone=False, seconds=30),
    ):
        task = asyncio.create_task(work)
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await evaluation.evaluate_expression(tab, "1 + 1") == "2"
    assert not driver.browser.connection._waiting


async def test_a_picture_of_the_page_leaves_no_trace_on_it(driver: PageDriver) -> None:
    await driver.open("/form")
    tab = await driver.tab()
    picture = await pictures.take_screenshot(tab, await driver.reporter.take_snapshot(tab), annotate=True)
    assert picture.startswith("/9j/")
    assert await driver.report() == "(no change)"
    assert await evaluation.evaluate_expression(tab, "document.documentElement.children.length") == "2"


async def test_tabs_that_pages_open_are_told_and_limited(driver: PageDriver) -> None:
    await driver.open("/popups?count=2")
    assert (await driver.click("Open many")).count("has opened") == 2
    first = driver.browser.current_number
    other = next(number for number in driver.browser.tabs if number != first)
    await driver.browser.switch_tab(other)
    assert "Inside" in await driver.report()
    await driver.browser.close_tab(other)
    await driver.open("/popups?count=14")
    refused = driver.browser.refused_popups
    await driver.click("Open many")
    activity = (await driver.tab()).activity
    assert await activity.wait_until(lambda: driver.browser.refused_popups == refused + 3, 10)
    assert "3 more tabs were closed at once: too many" in driver.told + await driver.report()
    assert len(driver.browser.tabs) == 12
    await driver.open("/popups?count=1000")
    with pytest.raises(PageCrashedError, match="it opened more than"):
        await pointer.click(await driver.tab(), driver.ref("Open many"))
    await driver.open("/")


async def test_a_crashed_page_is_named_and_another_one_can_be_opened(driver: PageDriver) -> None:
    await driver.open("/")
    tab = await driver.tab()
    with pytest.raises(PageCrashedError):
        await tab.run(tab.session.call("Page.crash"))
    with pytest.raises(PageCrashedError):
        await pointer.click(tab, "e1")
    assert "# Shop" in await driver.open("/")


async def test_a_page_that_is_too_large_to_be_told_says_so(driver: PageDriver) -> None:
    await driver.open("/")
    await evaluation.evaluate_expression(await driver.tab(), "document.body.innerHTML = '<i></i>'.repeat(40000)")
    assert "The page has 4000" in await driver.report()
    assert "# Shop" in await driver.open("/")


async def test_addresses_that_cannot_be_opened_say_why(driver: PageDriver) -> None:
    await driver.open("/")
    tab = await driver.tab()
    with pytest.raises(BrowserError, match="there is no host of that name"):
        await navigation.navigate(tab, "http://nowhere.invalid/")
    with pytest.raises(BrowserError, match="cannot be opened: browsers do not use that port"):
        await navigation.navigate(tab, "http://127.0.0.1:1/")
    assert "[status 404]" in await driver.open("/nothing")


@pytest.mark.slow
async def test_scripts_and_pages_without_an_end_are_given_up(driver: PageDriver) -> None:
    await driver.open("/busy")
    assert "a script of the page did not end and was stopped" in await driver.click("Loop")
    assert "Post" not in await driver.report()
    told = await driver.open("/unfinished")
    assert "the page is still loading" in told
    assert "# Begun" in told
