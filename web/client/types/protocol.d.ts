export type Stream = "stdout" | "stderr" | "pty";
export type Empty = Record<string, never>;
/**
 * See "sandbox" in docs/protocol.md.
 */
export type Sandbox = Record<string, unknown>;
export type EnvironmentInfo = {
    /**
     * the login shell
     */
    shell: {
        name: string;
        path: string;
    };
    executorVersion: string;
    providerId: string;
    cwd: string;
    userHomeDir: string;
    platformOs: string;
    tempDir: string;
    prependPathDirs: string[];
    temporaryDirectories: string[];
    capabilities: Record<string, boolean>;
};
export type InitializeParams = {
    clientName: string;
    resumeSessionId?: string | null | undefined;
    sessionTtlMs?: number | undefined;
    maxMessageBytes?: number | undefined;
};
export type InitializeResult = {
    sessionId: string;
    environmentInfo: EnvironmentInfo;
    observeId: string;
    server: {
        name: string;
        version: string;
    };
    extensions: string[];
    protocolVersion: string;
};
export type EnvPolicy = {
    inherit: "all" | "core" | "none";
    ignoreDefaultExcludes: boolean;
    exclude: string[];
    set: Record<string, string>;
    includeOnly: string[];
};
export type ResourceLimits = {
    cpuSeconds?: number | undefined;
    memoryBytes?: number | undefined;
    openFiles?: number | undefined;
    fileSizeBytes?: number | undefined;
    processes?: number | undefined;
};
export type StartParams = {
    processId: string;
    argv: string[];
    cwd: string;
    env: Record<string, string>;
    tty: boolean;
    pipeStdin?: boolean | undefined;
    arg0?: string | undefined;
    envPolicy?: EnvPolicy | undefined;
    rows?: number | undefined;
    cols?: number | undefined;
    timeoutMs?: number | undefined;
    idleTimeoutMs?: number | undefined;
    closedAfterExitMs?: number | undefined;
    onDisconnect?: "keep" | "terminate" | undefined;
    mode?: "direct" | "prepared" | undefined;
    limits?: ResourceLimits | undefined;
    record?: boolean | null | undefined;
    sandbox?: Sandbox | undefined;
    host?: string | undefined;
};
export type Chunk = {
    seq: number;
    stream: Stream;
    /**
     * absent with servers that lack the extension `gaps`
     */
    offset?: number | undefined;
    chunk: Uint8Array;
};
export type ReadResult = {
    chunks: Chunk[];
    nextSeq: number;
    exited: boolean;
    exitCode: number | null;
    closed: boolean;
    failure: string | null;
    sandboxDenied: boolean;
    signal?: string | null | undefined;
    reason?: string | null | undefined;
    firstRetainedSeq?: number | null | undefined;
    firstRetainedOffset?: number | null | undefined;
    evictedBytes?: number | undefined;
};
export type WriteResult = {
    status: "accepted" | "stdinClosed" | "unknownProcess" | "starting";
    accepted: boolean;
    acceptedBytes?: number | undefined;
};
export type WaitResult = {
    exited: boolean;
    exitCode: number | null;
    signal: string | null;
    reason: string | null;
    closed: boolean;
};
export type Snapshot = {
    stdout: Uint8Array;
    stderr: Uint8Array;
    terminal: Uint8Array;
    truncated: boolean;
    headBytes: {
        stdout: number;
        stderr: number;
        terminal: number;
    };
    droppedBytes: {
        stdout: number;
        stderr: number;
        terminal: number;
    };
    running: boolean;
    exitCode: number | null;
    signal: string | null;
};
export type Screen = {
    rows: string[];
    cols: number;
    cursor: {
        row: number;
        col: number;
        visible: boolean;
    };
    title: string;
    complete: boolean;
};
export type ProcessEntry = {
    processId: string;
    argv: string[];
    cwd: string;
    tty: boolean;
    pid: number | null;
    startedAtMs: number;
    running: boolean;
    exitCode: number | null;
    signal: string | null;
    host?: string | null | undefined;
};
export type Metadata = {
    isDirectory: boolean;
    isFile: boolean;
    isSymlink: boolean;
    size: number;
    createdAtMs: number;
    modifiedAtMs: number;
};
export type OfProcess = {
    processId: string;
    sessionId?: string;
};
export type OfPath = {
    path: string;
    sandbox?: Sandbox;
    followSymlinks?: boolean;
};
export type Header = {
    name: string;
    value: string;
};
export type ConfigLayers = {
    layers: {
        source: string;
        baseDir: string;
        toml: string;
    }[];
    cloudInsertionIndex: number;
};
export type HttpRequest = {
    method: string;
    url: string;
    headers?: {
        name: string;
        value: string;
        valueEnvVar?: string | null;
    }[] | undefined;
    bodyBase64?: Uint8Array<ArrayBufferLike> | undefined;
    timeoutMs?: number | undefined;
    redirectPolicy?: "stop" | "follow" | undefined;
    requestId: string;
    streamResponse?: boolean | undefined;
};
export type WalkOptions = {
    maxDepth: number;
    maxDirectories: number;
    maxEntries: number;
    followDirectorySymlinks?: boolean | undefined;
    pruneHiddenDirectories?: boolean | undefined;
};
/**
 * Params and result of each method.
 */
export type Methods = {
    "initialize": {
        params: InitializeParams;
        result: InitializeResult;
    };
    "environment/info": {
        params: Empty;
        result: EnvironmentInfo;
    };
    "environment/status": {
        params: Empty;
        result: {
            status: string;
        };
    };
    "process/start": {
        params: StartParams;
        result: {
            processId: string;
            sandboxType?: string;
        };
    };
    "process/read": {
        params: OfProcess & {
            afterSeq?: number | bigint;
            maxBytes?: number;
            waitMs?: number;
        };
        result: ReadResult;
    };
    "process/write": {
        params: OfProcess & {
            chunk: Uint8Array;
            writeId?: string;
            offset?: number;
        };
        result: WriteResult;
    };
    "process/closeStdin": {
        params: OfProcess;
        result: WriteResult;
    };
    "process/wait": {
        params: OfProcess & {
            waitMs?: number;
        };
        result: WaitResult;
    };
    "process/snapshot": {
        params: OfProcess;
        result: Snapshot;
    };
    "process/screen": {
        params: OfProcess;
        result: Screen;
    };
    "process/list": {
        params: {
            sessionId?: string;
        };
        result: {
            processes: ProcessEntry[];
        };
    };
    "process/resize": {
        params: OfProcess & {
            rows: number;
            cols: number;
        };
        result: Empty;
    };
    "process/flow": {
        params: {
            processId: string;
            paused: boolean;
        };
        result: Empty;
    };
    "process/attach": {
        params: {
            processId: string;
            observeId?: string;
            sessionId?: string;
            afterSeq?: number;
            afterOffset?: number;
            as?: string;
        };
        result: {
            nextSeq: number;
        };
    };
    "process/detach": {
        params: {
            processId: string;
        };
        result: Empty;
    };
    "process/signal": {
        params: OfProcess & {
            signal: string;
        };
        result: Empty;
    };
    "process/terminate": {
        params: OfProcess & {
            mode?: "force" | "graceful";
            timeoutMs?: number;
        };
        result: {
            running: boolean;
        };
    };
    "fs/readFile": {
        params: OfPath;
        result: {
            dataBase64: Uint8Array;
        };
    };
    "fs/writeFile": {
        params: OfPath & {
            dataBase64: Uint8Array;
        };
        result: Empty;
    };
    "fs/createDirectory": {
        params: OfPath & {
            recursive?: boolean;
        };
        result: Empty;
    };
    "fs/getMetadata": {
        params: OfPath;
        result: Metadata;
    };
    "fs/canonicalize": {
        params: OfPath;
        result: {
            path: string;
        };
    };
    "fs/walk": {
        params: OfPath & {
            options: WalkOptions;
        };
        result: {
            entries: {
                path: string;
                kind: string;
            }[];
            errors: {
                path: string;
                message: string;
            }[];
            truncated: boolean;
        };
    };
    "fs/remove": {
        params: OfPath & {
            recursive?: boolean;
            force?: boolean;
        };
        result: Empty;
    };
    "fs/readDirectory": {
        params: OfPath;
        result: {
            entries: {
                fileName: string;
                isDirectory: boolean;
                isFile: boolean;
                path?: string;
            }[];
        };
    };
    "fs/copy": {
        params: {
            sourcePath: string;
            destinationPath: string;
            recursive?: boolean;
            sandbox?: Sandbox;
        };
        result: Empty;
    };
    "fs/open": {
        params: {
            handleId: string;
            path: string;
            mode?: "read" | "write" | "replace";
            sandbox?: Sandbox;
        };
        result: {
            handleId: string;
        };
    };
    "fs/readBlock": {
        params: {
            handleId: string;
            offset: number | bigint;
            len: number;
        };
        result: {
            chunk: Uint8Array;
            eof: boolean;
        };
    };
    "fs/writeBlock": {
        params: {
            handleId: string;
            offset: number | bigint;
            chunk: Uint8Array;
        };
        result: Empty;
    };
    "fs/close": {
        params: {
            handleId: string;
        };
        result: Empty;
    };
    "fs/watchMissing": {
        params: {
            watchId: number | bigint;
            missing: string[];
            present?: string | null;
        };
        result: {
            watching: boolean;
        };
    };
    "http/request": {
        params: HttpRequest;
        result: {
            status: number;
            headers: Header[];
            bodyBase64: Uint8Array;
        };
    };
    "environmentConfig/read": {
        params: {
            cwd: string;
            configPaths: string[][];
            requirementsPaths: string[][];
        };
        result: {
            userHomeDir: string;
            codexHomeDir: string;
            hostname: string;
            config: ConfigLayers;
            requirements: ConfigLayers;
        };
    };
    "capabilities/discoverV2": {
        params: {
            cwd: string;
            sandbox?: Sandbox;
        };
        result: {
            plugins: unknown[];
            skills: unknown[];
            warnings: unknown[];
        };
    };
};
/**
 * Params of each notification of the server.
 */
export type Notifications = {
    "process/output": Chunk & {
        processId: string;
    };
    "process/exited": {
        processId: string;
        seq: number;
        exitCode: number;
        sandboxDenied: boolean;
        signal?: string | null;
        reason?: string;
    };
    "process/closed": {
        processId: string;
        seq: number;
    };
    "process/gap": {
        processId: string;
        fromSeq: number;
        toSeq: number;
        bytes: number;
    };
    "http/request/bodyDelta": {
        requestId: string;
        seq: number;
        deltaBase64: Uint8Array;
        done: boolean;
        error: string | null;
    };
    "fs/missingChanged": {
        watchId: number | bigint;
    };
};
/**
 * How a process ended.
 */
export type ExitStatus = {
    /**
     * 0 to 255; 128+n for a death by signal n
     */
    exitCode: number;
    /**
     * the signal that it died of, `SIGKILL` for instance
     */
    signal: string | null;
    /**
     * `exited`, `signaled`, `terminated`, `timeout`, …: docs/protocol.md, "process/exited"
     */
    reason: string;
};
/**
 * A piece of output; `offset` is the bytes of output before it.
 */
export type OutputEvent = {
    type: "output";
    processId: string;
    seq: number;
    stream: Stream;
    offset: number;
    data: Uint8Array;
};
/**
 * Output that is lost for good; `bytes` is null where the server does not say how much.
 */
export type GapEvent = {
    type: "gap";
    processId: string;
    fromSeq: number;
    toSeq: number;
    bytes: number | null;
};
/**
 * The process has ended; output may still come.
 */
export type ExitedEvent = {
    type: "exited";
    processId: string;
    seq: number;
    status: ExitStatus;
    sandboxDenied: boolean;
};
/**
 * Nothing comes any more.
 */
export type ClosedEvent = {
    type: "closed";
    processId: string;
    seq: number;
};
/**
 * Nothing comes any more, and nobody knows what became of the process.
 */
export type FailedEvent = {
    type: "failed";
    processId: string;
    reason: string;
};
export type ProcessEvent = OutputEvent | GapEvent | ExitedEvent | ClosedEvent | FailedEvent;
/**
 * How far the output of a process was taken: the seq of the last event, and the bytes of output up to it.
 */
export type Position = {
    seq: number;
    offset: number;
};
