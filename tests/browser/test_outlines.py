"""What is told of pages: what a person sees of them, with refs, within limits, and what has changed."""

import pytest

from hermes.browser.page_report import MAX_CHARACTERS
from hermes.browser.pictures import list_images
from hermes.core.errors import BrowserError
from tests.browser.page_driver import PageDriver

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.needs("chromium-headless-shell")]


async def test_a_page_is_told_as_a_person_sees_it(driver: PageDriver) -> None:
    told = await driver.open("/")
    assert told.replace(driver.site, "SITE").splitlines() == [
        "Shop",
        "SITE/",
        "nav:",
        ' e1 link "Form" e2 link "Table"',
        "# Shop",
        'Ten per cent off e3 link "everything" today.',
        '- Apples e4 button "Add apples"',
        '- Pears e5 button "Add pears"',
        'e6 clickable "Fake button"',
        'e7 link "New tab" e8 link "Get file"',
    ]
    page = await driver.reporter.describe_page(await driver.tab(), full=True)
    assert "HIDDEN" not in page.text
    assert page.addresses == (f"{driver.site}/",)


async def test_only_what_has_changed_is_told_and_refs_stay(driver: PageDriver) -> None:
    await driver.open("/")
    ref = driver.ref("Add apples")
    assert await driver.click("Add apples") == f'~ - Apples {ref} button "Added"'
    assert await driver.click("Fake button") == f"clicked\n{driver.site}/\n(no change)"
    assert await driver.report() == "(no change)"
    await driver.open("/")
    assert driver.ref("Add apples") != ref
    with pytest.raises(BrowserError, match=f"{ref} is stale"):
        (await driver.tab()).find_target(ref)


async def test_large_pages_stay_within_the_limit_and_all_of_them_can_be_had(driver: PageDriver) -> None:
    told = await driver.open("/table")
    assert len(told) <= MAX_CHARACTERS
    assert "Item 0 |" in told
    assert "## The end" in told
    assert "refs left out in all: browser_scroll" in told
    tab = await driver.tab()
    pages = [await driver.reporter.describe_page(tab, full=True, page=number) for number in (1, 2, 3, 4)]
    assert all(len(page.text) <= MAX_CHARACTERS for page in pages)
    lines = [line for page in pages for line in page.text.splitlines() if "| Item" in line]
    assert [int(line.partition(" ")[0]) for line in lines] == [*range(300)]
    found = (await driver.reporter.describe_page(tab, find="item 250 |")).text.splitlines()
    assert found[-2] == "# Items"
    assert found[-1].startswith("250 | Item 250 | e")
    driver.told = lines[7]
    assert await driver.click("Delete") == f"- {lines[7]}"


async def test_passwords_and_cards_are_never_told(driver: PageDriver) -> None:
    told = await driver.open("/form")
    assert 'textbox "Password" = (hidden)' in told
    assert 'textbox "Card" = (hidden)' in told
    await driver.click("Show password")
    tab = await driver.tab()
    told += (await driver.reporter.describe_page(tab, full=True)).text
    await driver.type("Name", "my hunter2secret")
    told += driver.told
    assert "hunter2" not in told
    assert "4111" not in told
    snapshot = await driver.reporter.take_snapshot(tab)
    assert len(snapshot.secret_boxes) == 2
    assert driver.reporter.hide_secrets("hunter2secret!") == "•••!"


async def test_frames_of_both_kinds_and_shadow_roots_are_parts_of_the_page(driver: PageDriver) -> None:
    told = await driver.open("/frames")
    assert 'frame "near":\n Inside near' in told
    assert 'frame "far":\n Inside far' in told
    assert len((await driver.tab()).frames) == 1
    report = await driver.reporter.describe_page(await driver.tab())
    assert {one.rpartition("/")[2] for one in report.addresses} == {"frames", "inner?name=near", "inner?name=far"}
    for name in ("near", "far"):
        await driver.type(f"Box {name}", "abc")
        assert f"pressed {name}: abc" in await driver.click(f"Press {name}")
    assert "frame:\n Middle\n frame:\n  Inside deep" in await driver.open("/deep")
    await driver.type("Box deep", "abc")
    assert "pressed deep: abc" in await driver.click("Press deep")
    await driver.open("/shadow")
    for mode in ("open", "closed"):
        await driver.type(f"Field {mode}", "abc")
        assert f"pressed {mode} abc" in await driver.click(f"In {mode}")


async def test_what_stands_for_a_hidden_field_is_told_as_the_field(driver: PageDriver) -> None:
    told = await driver.open("/labels")
    assert 'checkbox "News"' in told
    assert 'link "Seen"' in told
    assert 'button "Close"' in told
    assert "x true" in await driver.click("News")
    assert "[checked]" in await driver.click("Terms")
    told = await driver.open("/upload")
    assert 'file input "File"' in told
    assert 'file input "g" (not seen)' in told


async def test_pictures_are_listed(driver: PageDriver) -> None:
    await driver.open("/")
    assert list_images(await driver.reporter.take_snapshot(await driver.tab())) == []
