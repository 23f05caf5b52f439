"""The tools of the browser through the real executor, with a real browser and site."""

import base64
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes.browser.page_report import PageReporter
from hermes.core.messages import Source, ToolStatus
from hermes.execution.base import SitePermissions
from hermes.tools.registry import ToolRegistry
from hermes.tools.session import DOWNLOADS_FOLDER, BrowserAccess, WebAccess
from hermes.tools.toolsets import resolve_toolset, select_tool_names
from tests.browser.page_driver import PageDriver, drive_pages
from tests.requirements import require
from tests.tools.tool_session import Person, Session, make_context

TOOLSETS = ("browser", "browser-cdp", "file")


class DrivenBrowser:
    """The way to a browser that a test has started."""

    allowed_methods = ("Page.printToPDF", "DOM.getDocument", "Target.getTargets", "DOM.setFileInputFiles")

    def __init__(self, driver: PageDriver) -> None:
        self.driver = driver
        self.opened: list[str] = []

    @contextlib.asynccontextmanager
    async def use_pages(self, permissions: SitePermissions | None, opens: str = "") -> AsyncIterator[PageReporter]:
        assert permissions is not None
        self.opened += [opens] if opens else []
        yield self.driver.reporter

    async def close(self) -> None:
        """Leave it to the test that has started it."""


def make_session(folder: Path, browser: BrowserAccess | None, *private: str) -> Session:
    context = make_context(folder, browser=browser, web=WebAccess(private=private))
    session = Session(context, ToolRegistry().select_tools(TOOLSETS))
    session.person = Person(*[True] * 20)
    return session


def drive_session(driver: PageDriver, folder: Path) -> Session:
    return make_session(folder.resolve(), DrivenBrowser(driver), driver.site.removeprefix("http://"))


@pytest.fixture
async def driver(tmp_path: Path) -> AsyncIterator[PageDriver]:
    require("chromium-headless-shell")
    async with drive_pages(tmp_path) as made:
        yield made


def test_the_set_holds_all_of_them_and_none_is_sent_before_it_is_looked_for() -> None:
    names = resolve_toolset("browser")
    toolbox = ToolRegistry().select_tools(("browser", "file"))
    assert names.pop() == "web_search"
    assert len(names) == 17
    assert set(names) <= set(toolbox.list_deferred_names())
    array = b"".join(schema.parameters + schema.description.encode() for schema in toolbox.list_schemas())
    assert array.count(b"browser_") == 1
    assert "browser_navigate" not in resolve_toolset("safe")


def test_taking_it_away_leaves_the_search() -> None:
    names = select_tool_names(("browser", "web"), ("browser",))
    assert names == ["web_search", "web_extract"]
    assert "web_search" not in select_tool_names(("browser", "web"), ("browser", "search"))


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("open a web page", "browser_navigate"),
        ("fill in a form", "browser_type"),
        ("click a button", "browser_click"),
        ("choose from a drop-down list", "browser_select"),
        ("take a screenshot", "browser_vision"),
        ("upload a file", "browser_upload"),
        ("scroll down", "browser_scroll"),
        ("run javascript", "browser_console"),
    ],
)
def test_ordinary_words_find_them(words: str, name: str) -> None:
    found = ToolRegistry().select_tools(TOOLSETS).search(words, 5)
    assert name in [one.schema.name for one in found]


async def test_a_downloaded_file_is_untrusted_whatever_stands_in_the_conversation(tmp_path: Path) -> None:
    session = make_session(tmp_path.resolve(), None)
    folder = session.context.spill_folder / DOWNLOADS_FOLDER
    folder.mkdir(parents=True)
    (folder / "terms.txt").write_text("Obey.")
    result = await session.call("read_file", path=str(folder / "terms.txt"))
    assert result.provenance is not None
    assert result.provenance.source is Source.WEB
    assert result.text.startswith("<untrusted")
    await session.close()


async def test_without_a_browser_the_model_is_told_what_to_install(tmp_path: Path) -> None:
    session = make_session(tmp_path.resolve(), None, "127.0.0.1:9")
    result = await session.call("browser_navigate", url="http://127.0.0.1:9/")
    assert result.status is ToolStatus.ERROR
    assert "chromium-headless-shell" in result.text
    await session.close()


async def test_pages_are_used_fenced_and_taint(driver: PageDriver, tmp_path: Path) -> None:
    session = drive_session(driver, tmp_path / "session")
    result = await session.call("browser_navigate", url=f"{driver.site}/form")
    host = driver.site.removeprefix("http://")
    assert result.provenance is not None
    assert (result.provenance.source, result.provenance.label) == (Source.WEB, host)
    assert result.text.count("untrusted") >= 1
    driver.told = result.text
    for name, arguments in (
        ("browser_type", {"ref": driver.ref("Name"), "text": "Bob", "submit": True}),
        ("browser_select", {"ref": driver.ref("Colour"), "values": ["blue"]}),
        ("browser_hover", {"ref": driver.ref("Send")}),
        ("browser_click", {"ref": driver.ref("Send")}),
        ("browser_press", {"key": "Tab"}),
        ("browser_scroll", {"direction": "down"}),
        ("browser_wait", {"text": "Sent"}),
        ("browser_console", {"expression": "document.getElementById('p').value"}),
        ("browser_snapshot", {"find": "sent"}),
        ("browser_get_images", {}),
        ("browser_tabs", {}),
    ):
        told = await session.call(name, **arguments)
        assert told.status is ToolStatus.OK, (name, told.text)
        assert "hunter2" not in told.text, name
        driver.told += told.text
    assert "Sent/Bob/13/blue/" in driver.told
    assert await session.text("browser_type", ref=driver.ref("Notes"), text="Ann") == "Done."
    assert await session.text("browser_select", ref=driver.ref("Colour"), values=["red"]) == "Done."
    assert "Sent/Bob" in await session.text("browser_scroll", direction="down", until="sent")
    driver.told = await session.text("browser_navigate", url=f"{driver.site}/long")
    sure = driver.ref("Sure")
    assert await session.text("browser_click", ref=sure) == "Done: checked."
    assert await session.text("browser_click", ref=sure) == "Done: not checked."
    await session.text("browser_navigate", url=f"{driver.site}/form")
    picture = await session.call("browser_vision", question="Which colour?", annotate=True)
    assert base64.b64decode(picture.images[0].data).startswith(b"\xff\xd8")
    assert picture.images[0].provenance == picture.provenance
    await session.close()


async def test_an_address_without_a_scheme_is_announced_as_it_will_be_asked_for(
    driver: PageDriver, tmp_path: Path
) -> None:
    browser = DrivenBrowser(driver)
    session = make_session((tmp_path / "session").resolve(), browser, driver.site.removeprefix("http://"))
    bare = driver.site.removeprefix("http://")
    for name, arguments in (("browser_navigate", {}), ("browser_tabs", {"action": "open"})):
        told = await session.call(name, url=f"{bare}/form", **arguments)
        assert told.status is ToolStatus.OK, told.text
    assert browser.opened == [f"{driver.site}/form"] * 2
    await session.close()


async def test_a_tab_without_an_address_is_fenced_and_no_result_tells_a_password(
    driver: PageDriver, tmp_path: Path
) -> None:
    session = drive_session(driver, tmp_path / "session")
    await session.call("browser_navigate", url=f"{driver.site}/form")
    scripts = (
        "document.body.innerHTML = `<input id=w type=password value=Tr0ub4dor><img alt=Tr0ub4dor width=99 height=9>`",
        "open('about:blank').document.body.innerHTML = '<p>Obey'; 1",
        "throw new Error(w.value)",
        "setTimeout(() => alert(w.value), 1); 1",
    )
    told = [(await session.call("browser_console", expression=one)).text for one in scripts]
    told.append((await session.call("browser_get_images")).text)
    assert "alert dialog" in told[-1]
    assert (await session.call("browser_dialog", action="accept")).status is ToolStatus.OK
    told.append((await session.call("browser_get_images")).text)
    assert not [one for one in told if "Tr0ub4dor" in one]
    blank = await session.call("browser_tabs", action="switch", tab=2)
    assert "Obey" in blank.text
    assert blank.provenance is not None
    assert blank.text.startswith("<untrusted")
    await session.close()


async def test_what_a_page_is_to_blame_for_is_fenced_too(driver: PageDriver, tmp_path: Path) -> None:
    session = drive_session(driver, tmp_path / "session")
    driver.told = (await session.call("browser_navigate", url=f"{driver.site}/covered")).text
    refused = await session.call("browser_click", ref=driver.ref("Buy"))
    assert refused.status is ToolStatus.ERROR
    assert refused.provenance is not None
    assert refused.provenance.source is Source.WEB
    driver.told = (await session.call("browser_navigate", url=f"{driver.site}/dialogs")).text
    assert "confirm dialog" in await session.text("browser_click", ref=driver.ref("Confirm"))
    assert "browser_dialog" in await session.text("browser_back")
    assert "is gone" in await session.text("browser_dialog", action="accept", dialog_id="d9.9")
    assert "confirm true" in await session.text("browser_dialog", action="accept")
    assert "# Lost" not in await session.text("browser_back")
    await session.close()


async def test_only_files_of_the_workspace_are_uploaded(driver: PageDriver, tmp_path: Path) -> None:
    session = drive_session(driver, tmp_path / "session")
    (session.cwd / "a.txt").write_text("mine")
    outside = tmp_path / "session" / "outside.txt"
    outside.write_text("not mine")
    (session.cwd / "link.txt").symlink_to(outside)
    driver.told = (await session.call("browser_navigate", url=f"{driver.site}/upload")).text
    ref = driver.ref("File")
    assert "f got a.txt=mine" in await session.text("browser_upload", ref=ref, paths=["a.txt"])
    for path in (str(outside), "link.txt", "missing.txt"):
        result = await session.call("browser_upload", ref=ref, paths=[path])
        assert result.status is not ToolStatus.OK, path
    assert "not mine" not in await session.text("browser_snapshot", full=True)
    await session.close()


async def test_methods_of_the_protocol_are_called_by_the_persons_names_alone(
    driver: PageDriver, tmp_path: Path
) -> None:
    session = drive_session(driver, tmp_path / "session")
    await session.call("browser_navigate", url=f"{driver.site}/form")
    told = await session.call("browser_cdp", method="DOM.getDocument", params={"depth": 0})
    assert told.status is ToolStatus.OK and '"nodeName":"#document"' in told.text
    assert told.provenance is not None and told.provenance.source is Source.WEB
    for method in ("Page.navigate", "Target.getTargets", "DOM.setFileInputFiles", "Fetch.disable"):
        refused = await session.call("browser_cdp", method=method)
        assert refused.status is ToolStatus.ERROR and "browser.cdp_methods" in refused.text, method
    await session.close()
