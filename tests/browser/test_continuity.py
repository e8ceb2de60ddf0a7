"""Reloads, cuts, other tabs. Lost: a line of output, or a line twice; a command that dies with a connection."""

from __future__ import annotations

import asyncio
import random
import re
from contextlib import AsyncExitStack

import pytest
from playwright.async_api import Browser, BrowserContext

from tests.browser.conftest import Shell, context_of, served
from tests.support.cutting_proxy import CuttingProxy

pytestmark = pytest.mark.anyio

SLOWLY = "i=0; while [ $i -lt {count} ]; do i=$((i+1)); echo number $i; sleep 0.01; done; echo over"


def numbers(text: str) -> list[int]:
    return [int(found) for found in re.findall(r"^number ([0-9]+)$", text, re.MULTILINE)]


async def test_cuts_in_the_middle_of_a_flood(context: BrowserContext, stack: AsyncExitStack) -> None:
    url, page = await stack.enter_async_context(served("--retained-output", str(16 << 20)))
    proxy = await stack.enter_async_context(CuttingProxy(url))
    address = proxy.url.replace("ws://", "http://")
    shell = await Shell(await context.new_page()).open(f"{address}/#{page.partition('#')[2]}")
    await shell.run("stty -echo; clear; echo from here; seq 1 200000; echo over")
    for mark in (100_000, 400_000, 900_000):
        await shell.until("it prints", lambda mark=mark: shell.value(f"self.bytes > {mark}"))
        proxy.cut()
    await shell.shows("over", 60)
    lines = (await shell.text()).split("\n")
    seen = [int(line) for line in lines if line.isdigit()]
    assert len(seen) > 9_000 and seen == list(range(200_001 - len(seen), 200_001))
    printed = sum(len(str(number)) + 2 for number in range(1, 200_001))
    total = await shell.value("self.bytes")
    assert printed < total < printed + 400  # the prompts, the command and its words
    shell.problems = [each for each in shell.problems if "WebSocket" not in each]
    assert shell.problems == []


@pytest.mark.parametrize("seeds", [range(10), range(10, 20)])
async def test_reloads_at_random_moments(shell: Shell, seeds: range) -> None:
    """Twenty of them, while something is printed: nothing twice, nothing lost, and it goes on."""
    await shell.run(SLOWLY.format(count=400))
    await shell.shows("number 1")
    for seed in seeds:
        await asyncio.sleep(random.Random(seed).uniform(0.0, 0.25))
        await shell.page.reload()
        if seed % 2:
            await shell.ready()
    await shell.ready()
    await shell.shows("over", 40)
    assert numbers(await shell.text()) == list(range(1, 401))
    await shell.run("echo typed after all that")
    await shell.shows("typed after all that")


async def test_a_tab_that_was_closed_is_opened_again(context: BrowserContext, shell: Shell, server: str) -> None:
    await shell.run("echo before; PS1='# '")
    await shell.shows("before")
    await shell.page.close()
    again = await Shell(await context.new_page()).open(server.partition("#")[0])
    await again.shows("before")
    await again.run("echo after")
    await again.shows("after")
    assert await again.value("all.length") == 1
    assert (await again.text()).count("before\n") == 1


async def test_a_full_screen_program_is_whole_after_a_reload(shell: Shell) -> None:
    await shell.run("vim -u NONE -N -c 'call setline(1, range(1, 15))' -c 'set nu'")
    await shell.until("vim draws", lambda: shell.value("self.bytes > 500"))
    await asyncio.sleep(0.5)
    before = await shell.screen()
    await shell.page.reload()
    await shell.ready()

    async def same() -> bool:
        return await shell.screen() == before

    await shell.until("it is the same screen", same)
    await shell.type("dd")
    await shell.until("vim hears", lambda: _lacks(shell, "  1 1\n"))


async def _lacks(shell: Shell, text: str) -> bool:
    return "1 2" in await shell.screen() and text not in await shell.screen()


async def test_two_pages_show_one_terminal(context: BrowserContext, shell: Shell, server: str) -> None:
    other = await Shell(await context.new_page()).open(server.partition("#")[0])
    await other.run("echo from the other")
    await other.shows("from the other")
    await shell.shows("from the other")
    await shell.page.bring_to_front()
    await shell.run("echo from the first")
    await other.shows("from the first")
    await shell.page.close()
    await other.run("echo alone")
    await other.shows("alone")
    assert other.problems == []


async def test_a_page_that_the_browser_froze(context: BrowserContext, shell: Shell) -> None:
    devtools = await context.new_cdp_session(shell.page)
    await shell.run(SLOWLY.format(count=150))
    await shell.shows("number 5")
    await devtools.send("Page.setWebLifecycleState", {"state": "frozen"})
    await asyncio.sleep(2.5)
    await devtools.send("Page.setWebLifecycleState", {"state": "active"})
    await shell.shows("over")
    assert numbers(await shell.text()) == list(range(1, 151))


async def test_a_slow_page_beside_a_fast_one(context: BrowserContext, shell: Shell, server: str) -> None:
    """Who watches slowly holds nobody up, and sees the end all the same."""
    slow = await Shell(await context.new_page()).open(server.partition("#")[0])
    devtools = await context.new_cdp_session(slow.page)
    await devtools.send("Emulation.setCPUThrottlingRate", {"rate": 10})
    await shell.page.bring_to_front()
    await shell.run("seq 1 150000; echo over")
    await shell.shows("over", 30)
    await devtools.send("Emulation.setCPUThrottlingRate", {"rate": 1})
    await slow.shows("over", 30)
    assert (await slow.text()).split("\n")[-3:-1] == ["150000", "over"]


async def test_what_could_not_be_kept_is_said(context: BrowserContext, stack: AsyncExitStack) -> None:
    url, page = await stack.enter_async_context(served("--retained-output", "300000"))
    proxy = await stack.enter_async_context(CuttingProxy(url))
    shell = await Shell(await context.new_page()).open(
        f"{proxy.url.replace('ws://', 'http://')}/#{page.partition('#')[2]}"
    )
    await shell.run("sleep 0.7; seq -f %0100.f 1 30000; echo over")
    proxy.refuse = True
    proxy.cut()
    await asyncio.sleep(2.5)
    proxy.refuse = False
    await shell.shows("over", 40)
    await shell.until("it is said", lambda: _has(shell, "could not be kept, and is missing here"))


async def _has(shell: Shell, text: str) -> bool:
    return text in await shell.text()


async def test_another_person_has_another_session(browser: Browser, stack: AsyncExitStack, shell: Shell) -> None:
    """Whose cookie is another one does not see the first one's terminals by coming in."""
    await shell.page.click("#settings")
    await shell.page.get_by_role("button", name="Sign in elsewhere…").click()
    link = await shell.page.input_value("#link")
    other = await stack.enter_async_context(context_of(browser))
    second = await Shell(await other.new_page()).open(link)
    await second.run("echo mine")
    await second.shows("mine")
    assert "mine" not in await shell.text()
