"""The one table of what a client may call: method name -> params, result, family."""

from __future__ import annotations

import msgspec

from protocol.environment import (
    CapabilitiesDiscoverV2Params,
    CapabilitiesDiscoverV2Result,
    EnvironmentConfigReadParams,
    EnvironmentConfigReadResult,
    EnvironmentInfo,
    EnvironmentStatus,
)
from protocol.filesystem import (
    CanonicalizeParams,
    CanonicalizeResult,
    CloseParams,
    CopyParams,
    CreateDirectoryParams,
    GetMetadataParams,
    GetMetadataResult,
    OpenParams,
    OpenResult,
    ReadBlockParams,
    ReadBlockResult,
    ReadDirectoryParams,
    ReadDirectoryResult,
    ReadFileParams,
    ReadFileResult,
    RemoveParams,
    WalkParams,
    WalkResult,
    WatchMissingParams,
    WatchMissingResult,
    WriteBlockParams,
    WriteFileParams,
)
from protocol.http import HttpRequestParams, HttpRequestResult
from protocol.process import (
    ProcessAttachParams,
    ProcessAttachResult,
    ProcessCloseStdinParams,
    ProcessDetachParams,
    ProcessFlowParams,
    ProcessListParams,
    ProcessListResult,
    ProcessReadParams,
    ProcessReadResult,
    ProcessResizeParams,
    ProcessScreenParams,
    ProcessScreenResult,
    ProcessSignalParams,
    ProcessSnapshotParams,
    ProcessSnapshotResult,
    ProcessStartParams,
    ProcessStartResult,
    ProcessTerminateParams,
    ProcessTerminateResult,
    ProcessWaitParams,
    ProcessWaitResult,
    ProcessWriteParams,
    ProcessWriteResult,
)
from protocol.session import InitializeParams, InitializeResult
from protocol.wire_types import Empty, NoParams


class Method(msgspec.Struct, frozen=True):
    """A method: its name, the types of its params and result, and the family that handshake errors name."""

    name: str
    params: type[msgspec.Struct]
    result: type[msgspec.Struct]
    family: str


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("initialize", InitializeParams, InitializeResult, "initialize"),
        Method("environment/info", NoParams, EnvironmentInfo, "environment info"),
        Method("environment/status", NoParams, EnvironmentStatus, "environment status"),
        Method("process/start", ProcessStartParams, ProcessStartResult, "exec"),
        Method("process/read", ProcessReadParams, ProcessReadResult, "exec"),
        Method("process/write", ProcessWriteParams, ProcessWriteResult, "exec"),
        Method("process/closeStdin", ProcessCloseStdinParams, ProcessWriteResult, "exec"),
        Method("process/wait", ProcessWaitParams, ProcessWaitResult, "exec"),
        Method("process/snapshot", ProcessSnapshotParams, ProcessSnapshotResult, "exec"),
        Method("process/screen", ProcessScreenParams, ProcessScreenResult, "exec"),
        Method("process/list", ProcessListParams, ProcessListResult, "exec"),
        Method("process/resize", ProcessResizeParams, Empty, "exec"),
        Method("process/flow", ProcessFlowParams, Empty, "exec"),
        Method("process/attach", ProcessAttachParams, ProcessAttachResult, "exec"),
        Method("process/detach", ProcessDetachParams, Empty, "exec"),
        Method("process/signal", ProcessSignalParams, Empty, "exec"),
        Method("process/terminate", ProcessTerminateParams, ProcessTerminateResult, "exec"),
        Method("fs/readFile", ReadFileParams, ReadFileResult, "filesystem"),
        Method("fs/writeFile", WriteFileParams, Empty, "filesystem"),
        Method("fs/createDirectory", CreateDirectoryParams, Empty, "filesystem"),
        Method("fs/getMetadata", GetMetadataParams, GetMetadataResult, "filesystem"),
        Method("fs/canonicalize", CanonicalizeParams, CanonicalizeResult, "filesystem"),
        Method("fs/readDirectory", ReadDirectoryParams, ReadDirectoryResult, "filesystem"),
        Method("fs/walk", WalkParams, WalkResult, "filesystem"),
        Method("fs/remove", RemoveParams, Empty, "filesystem"),
        Method(
            "environmentConfig/read", EnvironmentConfigReadParams, EnvironmentConfigReadResult, "environment config"
        ),
        Method(
            "capabilities/discoverV2",
            CapabilitiesDiscoverV2Params,
            CapabilitiesDiscoverV2Result,
            "capability discovery",
        ),
        Method("fs/copy", CopyParams, Empty, "filesystem"),
        Method("fs/open", OpenParams, OpenResult, "filesystem"),
        Method("fs/readBlock", ReadBlockParams, ReadBlockResult, "filesystem"),
        Method("fs/writeBlock", WriteBlockParams, Empty, "filesystem"),
        Method("fs/close", CloseParams, Empty, "filesystem"),
        Method("fs/watchMissing", WatchMissingParams, WatchMissingResult, "filesystem"),
        Method("http/request", HttpRequestParams, HttpRequestResult, "http"),
    )
}
