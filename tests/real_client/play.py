"""One run of the client: folders of its own, a model, a proxy, a process, and what a scenario does with them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.real_client.failure import Failure, check
from tests.real_client.faults import Fault
from tests.real_client.model import Asked, Item, Model, custom_tool_call, function_call, message
from tests.real_client.proxy import Proxy

MODEL = "gpt-5.5"
"""The only model that the client has bundled whose tools are called one by one; another name has no apply_patch."""
LONGEST_YIELD_MS = 30_000
"""For how long the client's tools wait for an exit at most."""
_CLOSED_PROXY = "http://127.0.0.1:9"  # where the client's requests to other machines end
_CONFIG = f"""\
model = "{MODEL}"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "{{sandbox}}"
check_for_update_on_startup = false
web_search = "disabled"

[model_providers.scripted]
name = "scripted"
base_url = "http://127.0.0.1:{{port}}/v1"
env_key = "MODEL_API_KEY"
wire_api = "responses"
requires_openai_auth = false
supports_websockets = false
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false

[feedback]
enabled = false

[otel]
exporter = "none"
trace_exporter = "none"
metrics_exporter = "none"

[features]
unified_exec = true
apps = false
plugins = false
remote_plugin = false
shell_snapshot = false

[projects."{{cwd}}"]
trust_level = "trusted"

{{more}}
"""


def shell(cmd: str, *, wait_ms: int = LONGEST_YIELD_MS, **more: Any) -> Item:
    """Run a command; the tool returns at its exit, or after `wait_ms`."""
    return function_call("exec_command", "", cmd=cmd, yield_time_ms=wait_ms, **more)


def typed(session: int, chars: str, *, wait_ms: int = LONGEST_YIELD_MS) -> Item:
    """Type into a running command; the tool returns at its exit, or after `wait_ms`."""
    return function_call("write_stdin", "", session_id=session, chars=chars, yield_time_ms=wait_ms)


def patch(*lines: str) -> Item:
    """Apply a patch with these lines."""
    return custom_tool_call("apply_patch", "", "\n".join(["*** Begin Patch", *lines, "*** End Patch"]))


@dataclass(frozen=True)
class Output:
    """What a tool gave."""

    raw: Any

    @property
    def text(self) -> str:
        if isinstance(self.raw, str):
            return self.raw
        return "\n".join(part.get("text", "") for part in self.raw if isinstance(part, dict))

    @property
    def exit_code(self) -> int | None:
        """None where the command has not ended, or never began."""
        found = re.search(r"exited with code (-?\d+)", self.text)
        return int(found[1]) if found else None

    @property
    def session(self) -> int:
        """The number under which a running command can be typed into."""
        found = re.search(r"session ID (\d+)", self.text)
        if found is None:
            raise Failure(f"the command does not run on: {self.text[-600:]}")
        return int(found[1])


class Play:
    """The client at work in `cwd`, which is empty at first; `outside` is a folder beside it."""

    def __init__(self, codex: Path, server_url: str, work: Path, fault: Fault | None = None) -> None:
        self.cwd, self.outside, self._home = work / "cwd", work / "outside", work / "home"
        for folder in (self.cwd, self.outside, self._home):
            folder.mkdir(parents=True)
        self.model = Model()
        self.proxy = Proxy(server_url, fault)
        self.asked: Asked | None = None
        self._codex = codex
        self._client: asyncio.subprocess.Process | None = None
        self._call_ids = (f"c{n}" for n in itertools.count(1))
        self._log = work / "client.log"

    @property
    def pid(self) -> int:
        """The client's process id."""
        assert self._client is not None
        return self._client.pid

    async def start(self, *, sandbox: str = "danger-full-access", more: str = "", environments: str = "") -> None:
        """Start the client, and wait for its first question to the model.

        `more` is added to config.toml; `environments` is the content of environments.toml, and without it a variable
        names the server. `{url}` in it is the server's, `{cwd}` and `{port}` in `more` the folder's and the model's.
        """
        facts = {"cwd": self.cwd, "port": self.model.port, "python": sys.executable}
        config = _CONFIG.format(**facts, sandbox=sandbox, more=more.format(**facts))
        self._home.joinpath("config.toml").write_text(config)
        if environments:
            self._home.joinpath("environments.toml").write_text(environments.format(url=self.proxy.url))
        command = [self._codex, "exec", "--skip-git-repo-check", "--json", "-C", self.cwd, "play"]
        with self._log.open("wb") as log:
            self._client = await asyncio.create_subprocess_exec(
                *command,
                env=self._environ() | ({} if environments else {"CODEX_EXEC_SERVER_URL": self.proxy.url}),
                cwd=self._home,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.asked = await self._unless_it_ends(self.model.asked())

    async def turn(self, *calls: Item) -> list[Output]:
        """Have the client call tools, together; what each gave, in their order."""
        calls = tuple(call | {"call_id": next(self._call_ids)} for call in calls)
        self.asked = await self._unless_it_ends(self.model.answer(list(calls)))
        outputs = [self.asked.output(call["call_id"]) for call in calls]
        check(None not in outputs, f"the client did not say what every tool gave: {outputs}")
        return [Output(raw) for raw in outputs]

    async def one(self, call: Item) -> Output:
        """Have the client call one tool."""
        (output,) = await self.turn(call)
        return output

    async def finish(self) -> None:
        """End the client's turn; it must leave with status 0."""
        if self._client is None or self._client.returncode is not None:
            return
        self.model.answer_last([message("done")])
        status = await self.ended()
        check(status == 0, f"the client left with status {status}: {self.said()}")

    async def interrupt(self) -> None:
        """Send SIGINT to the client, as ^C in its terminal does, and wait for its end."""
        assert self._client is not None
        self._client.send_signal(signal.SIGINT)
        await self.ended()

    async def ended(self) -> int:
        """Wait for the client's end; its exit status."""
        assert self._client is not None
        return await self._client.wait()

    def said(self) -> str:
        """The end of what the client printed."""
        return self._log.read_text(errors="replace")[-600:] if self._log.exists() else ""

    def _environ(self) -> dict[str, str]:
        proxies = {"HTTP_PROXY": _CLOSED_PROXY, "HTTPS_PROXY": _CLOSED_PROXY, "NO_PROXY": "127.0.0.1,localhost"}
        own = {"HOME": str(self._home), "CODEX_HOME": str(self._home), "MODEL_API_KEY": "none"}
        return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "dumb", "SIDE": "client", **proxies, **own}

    async def _unless_it_ends(self, waited: Coroutine[Any, Any, Asked]) -> Asked:
        """What is waited for; Failure if the client ends before."""
        asked, end = asyncio.ensure_future(waited), asyncio.ensure_future(self.ended())
        try:
            await asyncio.wait((asked, end), return_when=asyncio.FIRST_COMPLETED)
            check(asked.done(), f"the client ended: {self.said()}")
            return asked.result()
        finally:
            asked.cancel()
            end.cancel()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The model and the proxy serve within the block; at its end the client is killed if it still runs."""
        await self.model.start()
        await self.proxy.start()
        try:
            yield
        finally:
            if self._client is not None and self._client.returncode is None:
                os.killpg(self._client.pid, signal.SIGKILL)
                await self._client.wait()
            await self.model.stop()
            await self.proxy.stop()
