"""The rest of the page: files, the list, a proxy, people who do not see it. Lost: half of what the page promises."""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.async_api import BrowserContext

from tests.browser.conftest import Shell, served
from tests.web_client.tools import modules

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parent.parent.parent


async def test_a_file_goes_into_the_terminals_folder_and_back(shell: Shell, tmp_path: Path) -> None:
    content = bytes(range(256)) * 8000
    source = tmp_path / "from here é.bin"
    source.write_bytes(content)
    folder = tmp_path / "the folder"
    folder.mkdir()
    await shell.run(f"cd '{folder}'; pwd")
    await shell.shows(str(folder))
    await shell.page.click("#files")
    await shell.page.set_input_files("#upload", source)
    await shell.page.get_by_role("button", name="Go", exact=True).click()
    target = folder / source.name
    await shell.until("it is there", lambda: asyncio.to_thread(target.exists))
    assert target.read_bytes() == content
    assert [path.name for path in folder.iterdir()] == [source.name]
    await shell.page.click("#files")
    await shell.page.fill("#path", source.name)
    async with shell.page.expect_download() as download:
        await shell.page.get_by_role("button", name="Go", exact=True).click()
    assert (await (await download.value).path()).read_bytes() == content


async def test_an_upload_that_is_ended_leaves_nothing(shell: Shell, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    await shell.run(f"cd {folder}; echo $PWD")
    await shell.shows(str(folder))
    drop = """(file) => { const data = new DataTransfer();
        data.items.add(new File([new Uint8Array(60e6)], 'large'));
        const event = new DragEvent('drop', { dataTransfer: data, bubbles: true });
        document.querySelector('.panel').dispatchEvent(event); }"""
    await shell.page.evaluate(drop)
    await shell.page.get_by_role("button", name="Cancel large").click()
    await shell.page.get_by_text("was not uploaded").wait_for()
    assert list(folder.iterdir()) == []


async def test_the_list_shows_and_ends_processes(shell: Shell) -> None:
    await shell.page.click("#new", modifiers=["Shift"])
    await shell.page.fill("#command", "sleep 1000")
    await shell.page.get_by_role("button", name="Start").click()
    await shell.until("there are two", lambda: shell.value("all.length === 2"))
    await shell.page.click("#list")
    row = shell.page.get_by_role("row").filter(has_text="sleep 1000")
    assert "running" in await row.inner_text()
    await row.get_by_role("button", name="End").click()
    await row.get_by_text("ended by SIGTERM").wait_for()
    await shell.page.get_by_role("button", name="Close", exact=True).click()
    await shell.until("its terminal says so", lambda: shell.value("self.ended"))
    await shell.shows("ended by SIGTERM")


async def test_a_session_of_another_client_is_shown_by_its_id(shell: Shell, server: str) -> None:
    from exec_server import connect_websocket

    url = server.partition("/#")[0].replace("http", "ws")
    async with connect_websocket(url) as client:
        process = await client.start(["sh", "-c", "echo of another; read x; echo got $x; exec sleep 100"], tty=True)
        await shell.page.click("#list")
        await shell.page.fill("#session", client.session_id)
        await shell.page.get_by_role("button", name="Add").click()
        await shell.page.get_by_role("row").filter(has_text="of another").get_by_role("button", name="Show").click()
        await shell.shows("of another")
        await shell.run("typed")
        await shell.shows("got typed")
        await process.kill()


async def test_behind_nginx_below_a_path(context: BrowserContext, stack: AsyncExitStack, tmp_path: Path) -> None:
    """The configuration of docs/web.md."""
    url, page = await stack.enter_async_context(served())
    given = re.search(r"<!-- nginx -->\n```nginx\n(.*?)```", (ROOT / "docs" / "web.md").read_text(), re.DOTALL)
    assert given is not None
    location = given[1].replace("127.0.0.1:8765", urlsplit(url).netloc)
    port = 20_000 + (urlsplit(url).port or 0) % 10_000
    temporary = "".join(
        f"{kind}_temp_path {tmp_path}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (tmp_path / "nginx.conf").write_text(
        f"daemon off; pid {tmp_path}/pid; error_log {tmp_path}/error.log; events {{}}\n"
        f"http {{ access_log off; {temporary} server {{ listen 127.0.0.1:{port}; {location} }} }}\n"
    )
    nginx = await asyncio.create_subprocess_exec(
        "nginx", "-c", str(tmp_path / "nginx.conf"), "-e", f"{tmp_path}/start.log", "-g", "master_process off;"
    )
    try:
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                break
            except ConnectionRefusedError:
                assert nginx.returncode is None, (tmp_path / "start.log").read_text()
                await asyncio.sleep(0.02)
        shell = await Shell(await context.new_page()).open(f"http://127.0.0.1:{port}/shell/#{page.partition('#')[2]}")
        await shell.run("echo through a proxy")
        await shell.shows("through a proxy")
        await shell.page.reload()
        await shell.ready()
        await shell.shows("through a proxy")
        assert shell.problems == []
    finally:
        nginx.terminate()
        await nginx.wait()


@pytest.mark.parametrize("dark", [False, True])
async def test_axe_finds_nothing_serious(shell: Shell, dark: bool) -> None:
    """Whoever uses the page by keyboard or with a screen reader."""
    await shell.page.emulate_media(color_scheme="dark" if dark else "light")
    axe = (modules() / "axe-core" / "axe.min.js").read_text()
    await shell.page.evaluate(f"{axe}; undefined")

    async def serious() -> list[str]:
        found = await shell.page.evaluate("axe.run().then(({violations}) => violations)")
        return [
            f"{each['id']}: {each['nodes'][0]['html'][:200]}"
            for each in found
            if each["impact"] in ("serious", "critical")
        ]

    assert await serious() == []
    for button in ("#list", "#files", "#settings"):
        await shell.page.click(button)
        await shell.page.wait_for_selector("#ask[open]")
        assert await serious() == [], button
        await shell.page.keyboard.press("Escape")


async def test_everything_is_reached_by_keyboard(shell: Shell) -> None:
    await shell.page.focus("#new")
    await shell.page.keyboard.press("Enter")
    await shell.until("there are two", lambda: shell.value("all.length === 2 && self === all[1]"))
    tabs = shell.page.get_by_role("tab")
    await tabs.nth(1).focus()
    await shell.page.keyboard.press("ArrowLeft")
    assert await shell.value("self === all[0]")
    assert await tabs.nth(0).get_attribute("aria-selected") == "true"
