"""A browser for all tests, and a server, a page and a proxy that cuts for each."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WAIT_S = 20.0


def chromium() -> str:
    """The program of the browser."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    raise FileNotFoundError("these tests need Debian's package chromium")


class Shell:
    """A page with terminals, as a person sees and uses it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.problems: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", lambda each: self.problems.append(each.text) if each.type == "error" else None)

    async def open(self, url: str) -> Shell:
        """Go there, and wait until there is a terminal that has printed something."""
        await self.page.goto(url)
        await self.ready()
        return self

    async def ready(self) -> None:
        await self.until("there is a prompt", lambda: self.value("self?.bytes > 0"))

    async def value(self, expression: str) -> Any:
        """Of an expression in the page; `self` is the terminal in front, `all` are all."""
        head = "const all = window.execServerPage?.tabs.map((each) => each.view) ?? []; "
        front = "const self = all.find((each) => !each.panel.hidden); "
        return await self.page.evaluate(f"(async () => {{ {head}{front}return {expression}; }})()")

    async def text(self) -> str:
        """All lines of the terminal, scrollback included, without the blanks at their ends."""
        lines = "Array.from({length: self.term.buffer.active.length}, (_, at) => self.term.buffer.active.getLine(at))"
        joined = f"{lines}.map((line) => (line.isWrapped ? '\\0' : '') + line.translateToString(true)).join('\\n')"
        return str(await self.value(joined)).replace("\n\0", "").rstrip()

    async def screen(self) -> str:
        """What is on the screen now."""
        lines = "Array.from({length: self.term.rows}, (_, at) => self.term.buffer.active.getLine(base + at))"
        body = f"((base) => {lines}.map((line) => line.translateToString(true)).join('\\n'))"
        return str(await self.value(f"{body}(self.term.buffer.active.baseY)"))

    async def until(self, what: str, holds: Callable[[], Awaitable[Any]], seconds: float = WAIT_S) -> None:
        """Wait until something holds. Raises AssertionError."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    try:
                        if await holds():
                            return
                    except Exception as error:
                        if "context was destroyed" not in str(error) and "navigat" not in str(error):
                            raise
                    await asyncio.sleep(0.03)
        except TimeoutError:
            shown = await self.text() if await self.value("self !== undefined") else "(no terminal)"
            status = await self.page.text_content("#status")
            raise AssertionError(
                f"never: {what}; status {status!r}, the terminal shows {shown[:300]!r} … {shown[-600:]!r}"
            ) from None

    async def shows(self, text: str, seconds: float = WAIT_S) -> None:
        """Wait until a line of the terminal is just this, or has it, if it has several words."""

        async def there() -> bool:
            found = await self.text()
            return text in found if " " in text else text in found.split("\n")

        await self.until(f"shows {text!r}", there, seconds)

    async def type(self, text: str) -> None:
        """As from a keyboard."""
        await self.page.keyboard.type(text)

    async def run(self, command: str) -> None:
        """A command of the shell, and Enter."""
        await self.type(command + "\n")


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        running = await playwright.chromium.launch(executable_path=chromium(), headless=True, args=ARGUMENTS)
        yield running
        await running.close()


@asynccontextmanager
async def served(*options: str) -> AsyncIterator[tuple[str, str]]:
    """`exec-server serve --web`; the URL of its WebSocket and that of its page, with the code."""
    environment = {**os.environ, "SHELL": "/bin/sh", "PS1": "$ ", "ENV": ""}
    argv = [sys.executable, "-m", "exec_server", "serve", "--web", "--listen", "ws://127.0.0.1:0", *options]
    folder = tempfile.TemporaryDirectory()
    server = await asyncio.create_subprocess_exec(
        *argv, cwd=folder.name, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, env=environment
    )
    assert server.stdout is not None
    try:
        url = (await server.stdout.readline()).decode().strip()
        yield url, (await server.stdout.readline()).decode().strip()
    finally:
        server.terminate()
        await server.wait()
        folder.cleanup()


@asynccontextmanager
async def context_of(browser: Browser, **options: Any) -> AsyncIterator[BrowserContext]:
    """A browser of one person: its cookies and storage."""
    context = await browser.new_context(**{"viewport": {"width": 1000, "height": 640}, **options})
    try:
        yield context
    finally:
        await context.close()


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as opened:
        yield opened


@pytest.fixture
async def server(stack: AsyncExitStack) -> str:
    """The URL of the page of a server, with its code."""
    return (await stack.enter_async_context(served()))[1]


@pytest.fixture
async def context(browser: Browser, stack: AsyncExitStack) -> BrowserContext:
    return await stack.enter_async_context(context_of(browser))


@pytest.fixture
async def shell(context: BrowserContext, server: str) -> AsyncIterator[Shell]:
    """A page with one terminal, in which a shell runs."""
    opened = await Shell(await context.new_page()).open(server)
    yield opened
    assert opened.problems == []
