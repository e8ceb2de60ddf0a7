"""Counters of the tools for Prometheus. Needs the extra `metrics`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter
except ImportError:
    raise ImportError("counters need prometheus-client: pip install 'exec-server[metrics]'") from None

from harness.tools.shell import COUNTER


class ToolCounters:
    """What `ShellTools(count=…)` takes: `codex.tool.unified_exec` as the family `codex_tool_unified_exec_total`."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._counters: dict[str, Any] = {
            COUNTER: Counter(COUNTER.replace(".", "_"), "Commands that models have run.", ["tty"], registry=registry)
        }

    def __call__(self, name: str, tags: Mapping[str, str]) -> None:
        """One more. Raises KeyError for a counter that no tool has."""
        self._counters[name].labels(**tags).inc()
