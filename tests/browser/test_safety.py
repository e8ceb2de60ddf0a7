"""What a program, or somebody with a link, tries in the page. Lost: the browser of whoever looks at hostile output."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from playwright.async_api import Browser, BrowserContext, Page

from tests.browser.conftest import Shell, context_of, served

pytestmark = pytest.mark.anyio


async def test_titles_and_output_are_text(shell: Shell) -> None:
    hostile = "<img src=x onerror=document.title=1><b>bold</b>"
    await shell.run(f"printf '\\033]0;{hostile}\\007{hostile}\\n'; read x")
    await shell.until("the title is there", lambda: shell.value(f"self.title.includes({hostile!r})"))
    label = shell.page.get_by_role("tab").first
    assert await label.inner_text() == hostile
    assert await label.evaluate("element => element.childElementCount") == 0
    assert hostile in await shell.page.title()
    await shell.shows(hostile)


async def test_links_are_shown_before_they_open_and_only_web_links(context: BrowserContext, shell: Shell) -> None:
    opened: list[Page] = []
    context.on("page", lambda page: opened.append(page))
    for uri in ("javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "http://127.0.0.1:1/x?y=%22"):
        await shell.run(f"clear; printf '\\033]8;;{uri.replace('%', '%%')}\\033\\\\press here\\033]8;;\\033\\\\\\n'")
        await shell.until("it is there", lambda: _starts(shell, "press here"))
        box = await shell.page.locator(".xterm-screen").first.bounding_box()
        assert box is not None
        await shell.page.mouse.move(box["x"] + 300, box["y"] + 200)
        await shell.page.mouse.move(box["x"] + 20, box["y"] + 10, steps=5)
        await asyncio.sleep(0.2)
        await shell.page.mouse.click(box["x"] + 20, box["y"] + 10)
        if uri.startswith("http:"):
            await shell.page.wait_for_selector("#ask[open]")
            assert "http://127.0.0.1:1/x?y=%22" in await shell.page.inner_text("#ask")
            await shell.page.get_by_role("button", name="Cancel").click()
        else:
            await asyncio.sleep(0.2)
            assert await shell.page.locator("#ask[open]").count() == 0, uri
        assert opened == []
        await shell.value("self.focus()")


async def _starts(shell: Shell, text: str) -> bool:
    return (await shell.screen()).startswith(text)


async def test_the_clipboard_is_never_read_and_written_only_with_leave(context: BrowserContext, shell: Shell) -> None:
    await context.grant_permissions(["clipboard-read", "clipboard-write"])
    await shell.page.evaluate("navigator.clipboard.writeText('secret')")
    await shell.run("stty -echo; printf '\\033]52;c;?\\007'; (sleep 0.3; echo asked) & cat -v")
    await shell.shows("asked")
    assert "^[]52" not in await shell.text()
    await shell.page.keyboard.press("Control+c")
    await shell.run("printf '\\033]52;c;aG9zdGlsZQ==\\007'")
    await shell.page.wait_for_selector("#ask[open]")
    assert "hostile" in await shell.page.inner_text("#ask")
    assert await shell.page.evaluate("navigator.clipboard.readText()") == "secret"
    await shell.page.get_by_role("button", name="No", exact=True).click()
    assert await shell.page.evaluate("navigator.clipboard.readText()") == "secret"


async def test_a_share_shows_and_takes_nothing(browser: Browser, stack: AsyncExitStack, shell: Shell) -> None:
    await shell.run("echo for everybody")
    await shell.page.click("#share")
    link = await shell.page.input_value("#link")
    await shell.page.get_by_role("button", name="Close", exact=True).click()
    context = await stack.enter_async_context(context_of(browser))
    watcher = Shell(await context.new_page())
    await watcher.page.goto(link)
    await watcher.until("there is a terminal", lambda: watcher.value("self !== undefined"))
    await watcher.shows("for everybody")
    await watcher.value("self.focus()")
    await watcher.type("echo never typed\n")
    for tool in ("#new", "#list", "#share", "#files"):
        assert await watcher.page.locator(tool).is_hidden()
    await shell.value("self.focus()")
    await shell.run("echo and this")
    await watcher.shows("and this")
    assert "never typed" not in await shell.text()
    await watcher.page.reload()
    await watcher.until("there is a terminal", lambda: watcher.value("self !== undefined"))
    await watcher.shows("and this")


async def test_what_a_program_asks_is_answered_once(context: BrowserContext, shell: Shell, server: str) -> None:
    """Two pages, and a reload: each answer too many is typed into the shell."""
    other = await Shell(await context.new_page()).open(server.partition("#")[0])
    await shell.page.bring_to_front()
    await shell.run(
        "stty -echo -icanon; printf '\\033[c'; sleep 0.5; dd bs=200 count=1 2>/dev/null | od -c | grep -o c | wc -l"
    )
    await shell.shows("1")
    await shell.page.reload()
    await shell.ready()
    await shell.run("stty sane; echo quiet, and all is well")
    await shell.shows("quiet, and all is well")
    assert "1;2c" not in await shell.text()
    assert other.problems == []


async def test_the_page_asks_no_other_server(context: BrowserContext, server: str) -> None:
    asked: list[str] = []
    page = await context.new_page()
    page.on("request", lambda request: asked.append(request.url))
    await Shell(page).open(server)
    origin = server.partition("/#")[0]
    assert asked and all(url.startswith(f"{origin}/") for url in asked), asked


async def test_a_used_code_asks_for_another_one(
    browser: Browser, stack: AsyncExitStack, shell: Shell, server: str
) -> None:
    context = await stack.enter_async_context(context_of(browser))
    page = await context.new_page()
    await page.goto(server)
    await page.wait_for_selector("#signin[open]")
    await page.fill("#secret", "wrong")
    await page.keyboard.press("Enter")
    await page.wait_for_function("() => document.getElementById('signin-error').textContent !== ''")
    assert await page.locator(".xterm").count() == 0


async def test_with_tokens_the_page_asks_for_one(context: BrowserContext, stack: AsyncExitStack, tmp_path) -> None:  # type: ignore[no-untyped-def]
    token = tmp_path / "token"
    token.write_text("a token of this test")
    _, url = await stack.enter_async_context(served("--ws-auth", "capability-token", "--ws-token-file", str(token)))
    page = await context.new_page()
    await page.goto(url)
    await page.fill("#secret", "a token of this test")
    await page.keyboard.press("Enter")
    shell = Shell(page)
    await shell.ready()
    kept = await page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])")
    assert "a token" not in kept
