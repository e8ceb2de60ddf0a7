"""Programs in the page. Lost: what people do in a terminal all day."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext

from tests.browser.conftest import Shell

pytestmark = pytest.mark.anyio

Figures = Callable[[str, list[str]], None]


async def test_a_newcomer_opens_the_url_and_types(context: BrowserContext, server: str, figures: Figures) -> None:
    """Three steps: start, open, type."""
    begun = time.monotonic()
    shell = await Shell(await context.new_page()).open(server)
    await shell.run("echo $((6*7))")
    await shell.shows("42")
    figures("newcomer", [f"from the URL to the answer: {time.monotonic() - begun:.2f} s"])
    assert "code" not in shell.page.url
    assert shell.problems == []


async def test_vim_edits_a_file(shell: Shell, tmp_path: Path) -> None:
    target = tmp_path / "notes"
    await shell.run(f"vim -u NONE -N {target}")
    await shell.until("vim fills the screen", lambda: shell.value("self.term.buffer.active.type === 'alternate'"))
    await shell.until("vim draws", lambda: shell.value("self.bytes > 500"))
    await shell.type("iwritten in a page")
    await shell.page.keyboard.press("Escape")
    await shell.type(":wq\n")
    await shell.until("vim leaves", lambda: shell.value("self.term.buffer.active.type === 'normal'"))
    assert target.read_text() == "written in a page\n"


async def test_top_draws_again_and_again(shell: Shell) -> None:
    await shell.run("top -d 0.2")

    async def drawn() -> bool:
        return "PID" in await shell.screen() and "load average" in await shell.screen()

    await shell.until("top draws", drawn)
    before = await shell.value("self.bytes")
    await shell.until("it draws again", lambda: shell.value(f"self.bytes > {before} + 200"))
    await shell.type("q")

    async def left() -> bool:
        return (await shell.text()).split("\n")[-1] in ("#", "$")

    await shell.until("it leaves", left)  # what comes together with the q would be no q to it
    await shell.run("echo left")
    await shell.shows("left")


async def test_a_hundred_thousand_lines_of_colour(shell: Shell) -> None:
    await shell.run(
        "awk 'BEGIN { for (i = 1; i <= 100000; i++) printf \"\\033[38;5;%dmline %d\\033[0m\\n\", i % 256, i }'"
    )
    await shell.shows("line 100000", 60)
    lines = [line for line in (await shell.text()).split("\n") if line.startswith("line ")]
    assert lines == [f"line {number}" for number in range(100_001 - len(lines), 100_001)]
    assert len(lines) > 9_900  # the scrollback
    colour = "(await self).term.buffer.active.getLine(self.term.buffer.active.length - 3).getCell(0).getFgColor()"
    assert isinstance(await shell.value(colour), int)


async def test_wide_characters_and_emoji_have_two_cells(shell: Shell) -> None:
    """A cursor that is beside the character, in every line with one."""
    family = "\U0001f468‍\U0001f469‍\U0001f467"
    for text, cells in (("日本語", 6), ("😀", 2), (family, 2), ("é", 1), ("e\u0301", 1), ("🇯🇵", 2)):
        await shell.run(f"clear; printf '%s|' {text}; read x")
        await shell.until(f"{text} is there", lambda text=text: _has(shell, f"{text}|"))
        assert await shell.value("self.term.buffer.active.cursorX") == cells + 1, text
        await shell.run("")


async def _has(shell: Shell, text: str) -> bool:
    return (await shell.screen()).startswith(text)


async def test_a_megabyte_is_pasted_whole(shell: Shell, tmp_path: Path) -> None:
    target = tmp_path / "pasted"
    text = "".join(f"{number:06d} {'x' * 92}\n" for number in range(10_000))
    await shell.run(f"stty -echo; cat > {target}; stty echo; echo over")
    await shell.until("cat reads", lambda: shell.value("true"))
    await shell.page.evaluate("text => execServerPage.tabs[0].view.term.paste(text)", text)
    await shell.page.keyboard.press("Control+d")
    await shell.shows("over", 60)
    assert hashlib.sha256(target.read_bytes()).hexdigest() == hashlib.sha256(text.encode()).hexdigest()


async def test_a_paste_is_bracketed_where_a_program_asks(shell: Shell) -> None:
    """A pasted line end that runs a command nobody has read."""
    await shell.run("printf '\\033[?2004h'; cat -v")
    await shell.until("it is asked for", lambda: shell.value("self.term.modes.bracketedPasteMode"))
    await shell.page.evaluate("execServerPage.tabs[0].view.term.paste('rm -rf x\\n')")
    await shell.shows("[200~rm -rf x")


async def test_the_terminal_has_the_size_of_the_window(shell: Shell) -> None:
    for width, height in ((700, 400), (1200, 700)):
        before = await shell.value("self.term.cols")
        await shell.page.set_viewport_size({"width": width, "height": height})
        await shell.until("it has another size", lambda before=before: shell.value(f"self.term.cols !== {before}"))

        async def told() -> bool:
            await shell.run("stty size")
            await asyncio.sleep(0.2)
            size = await shell.value("`${self.term.rows} ${self.term.cols}`")
            return size in (await shell.text()).split("\n")

        await shell.until("the program knows it", told)


async def test_search_finds_and_selects(shell: Shell) -> None:
    await shell.run("for i in 1 2 3; do echo hay$i; done; echo needle7; seq 1 200")
    await shell.shows("200")
    await shell.page.keyboard.press("Control+Shift+F")
    await shell.page.fill("#needle", "needle7")
    await shell.page.keyboard.press("Enter")
    await shell.until("it is selected", lambda: shell.value("self.term.getSelection() === 'needle7'"))


async def test_on_a_phone_there_are_keys(shell: Shell) -> None:
    await shell.page.set_viewport_size({"width": 390, "height": 760})
    await shell.run("cat -v")
    for name in ("Esc", "Tab", "Up", "Control C"):
        await shell.page.get_by_role("button", name=name, exact=True).click()
    await shell.until("they were typed", lambda: _typed(shell))
    await shell.run("cat -v; echo left")
    await shell.page.get_by_role("button", name="Ctrl", exact=True).click()
    await shell.type("d")
    await shell.shows("left")
    await shell.run("echo here")
    await shell.shows("here")


async def _typed(shell: Shell) -> bool:
    return "^[[A^C" in (await shell.text()).replace(" ", "").replace("^[\t", "^[")


async def test_echo_and_a_flood(shell: Shell, figures: Figures) -> None:
    """50 MB of output leave the page alive: what is typed is answered, and it stays small."""
    echo = """(async () => { const took = []; for (let round = 0; round < 60; round += 1) {
        const begun = performance.now();
        await new Promise((resolve) => { const parsed = self.term.onWriteParsed(() => { parsed.dispose(); resolve(); });
            self.term.input('x'); });
        took.push(performance.now() - begun); await new Promise((resolve) => setTimeout(resolve, 20)); }
        return took.sort((a, b) => a - b); })()"""
    took = await shell.value(echo.replace("return took", "return took", 1))
    await shell.page.keyboard.press("Control+u")
    await shell.run("yes 'a line of output that goes on and on' | head -c 50000000; echo; echo over")
    await shell.until("it prints", lambda: shell.value("self.bytes > 2e6"))
    alive = []
    while not await shell.value("self.bytes > 49e6"):
        begun = time.monotonic()
        await shell.value("1")
        alive.append(time.monotonic() - begun)
    await shell.shows("over", 60)
    heap = await shell.value("performance.memory.usedJSHeapSize")
    await shell.run("echo still here")
    await shell.shows("still here")
    assert heap < 300e6
    figures(
        "echo in the page, and 50 MB of output",
        [
            f"echo: p50 {took[30]:.1f} ms, p95 {took[57]:.1f} ms",
            f"answers of the page meanwhile: p50 {1000 * sorted(alive)[len(alive) // 2]:.0f} ms,"
            f" longest {1000 * max(alive):.0f} ms; heap {heap / 1e6:.0f} MB",
        ],
    )
