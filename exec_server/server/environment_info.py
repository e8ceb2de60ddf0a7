"""What the server tells its clients about the machine it runs on."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from pathlib import Path

from actors.system.child.environment import login_shell
from exec_server.version import __version__
from protocol.environment import Capabilities, EnvironmentInfo, Shell
from protocol.paths import path_uri


def environment_info() -> EnvironmentInfo:
    """The answer to environment/info (docs/protocol.md, "environment/info"); the same object for the life of the
    server.
    """
    path = login_shell()
    return EnvironmentInfo(
        shell=Shell(name=os.path.basename(path), path=path),
        executor_version=__version__,
        provider_id=_provider_id(),
        cwd=path_uri(os.getcwd()),
        user_home_dir=path_uri(os.path.expanduser("~")),
        platform_os="linux" if sys.platform.startswith("linux") else sys.platform,
        temp_dir=path_uri(temporary_folder()),
        capabilities=Capabilities(
            capability_discovery_v2=True, environment_config_read=True, http_header_env_vars=True
        ),
    )


def temporary_folder() -> str:
    """Where temporary files go; where none can be written, as in a container that is read-only, where they would."""
    try:
        return tempfile.gettempdir()
    except FileNotFoundError:
        wanted = os.environ.get("TMPDIR", "")
        return wanted if os.path.isabs(wanted) else "/tmp"


def _provider_id() -> str:
    """Stable for a host and user: clients use it to tell executors apart."""
    try:
        machine = Path("/etc/machine-id").read_text().strip()
    except OSError:
        machine = os.uname().nodename
    digest = hashlib.sha256(f"exec-server:{machine}:{os.getuid()}".encode()).hexdigest()
    return f"sha256:{digest}"
