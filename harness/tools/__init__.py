"""The tools of a model over a machine: definitions, calls that do not raise, results as items, events of a turn.

shell     ShellTools: exec_command and write_stdin over UnifiedExec
image     ViewImage: view_image over Environment.read_image
events    TurnEvents: what a front end shows of commands; pure
result    definitions, arguments, results; pure
metrics   the counters, for Prometheus
"""

from __future__ import annotations

from harness.tools.events import TurnEvents
from harness.tools.image import ViewImage
from harness.tools.result import ToolCall, ToolResult
from harness.tools.shell import ShellTools

__all__ = ["ShellTools", "ToolCall", "ToolResult", "TurnEvents", "ViewImage"]
