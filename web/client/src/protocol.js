/**
 * Types of what goes over the wire. docs/protocol.md of exec-server is the source, and says what each member means.
 *
 * @module
 */

/** @typedef {'stdout' | 'stderr' | 'pty'} Stream */
/** @typedef {Record<string, never>} Empty */
/** @typedef {Record<string, unknown>} Sandbox See "sandbox" in docs/protocol.md. */

/**
 * @typedef {object} EnvironmentInfo
 * @property {{name: string, path: string}} shell the login shell
 * @property {string} executorVersion
 * @property {string} providerId
 * @property {string} cwd
 * @property {string} userHomeDir
 * @property {string} platformOs
 * @property {string} tempDir
 * @property {string[]} prependPathDirs
 * @property {string[]} temporaryDirectories
 * @property {Record<string, boolean>} capabilities
 */

/**
 * @typedef {object} InitializeParams
 * @property {string} clientName
 * @property {string | null} [resumeSessionId]
 * @property {number} [sessionTtlMs]
 * @property {number} [maxMessageBytes]
 */

/**
 * @typedef {object} InitializeResult
 * @property {string} sessionId
 * @property {EnvironmentInfo} environmentInfo
 * @property {string} observeId
 * @property {{name: string, version: string}} server
 * @property {string[]} extensions
 * @property {string} protocolVersion
 */

/**
 * @typedef {object} EnvPolicy
 * @property {'all' | 'core' | 'none'} inherit
 * @property {boolean} ignoreDefaultExcludes
 * @property {string[]} exclude
 * @property {Record<string, string>} set
 * @property {string[]} includeOnly
 */

/**
 * @typedef {object} ResourceLimits
 * @property {number} [cpuSeconds]
 * @property {number} [memoryBytes]
 * @property {number} [openFiles]
 * @property {number} [fileSizeBytes]
 * @property {number} [processes]
 */

/**
 * @typedef {object} StartParams
 * @property {string} processId
 * @property {string[]} argv
 * @property {string} cwd
 * @property {Record<string, string>} env
 * @property {boolean} tty
 * @property {boolean} [pipeStdin]
 * @property {string} [arg0]
 * @property {EnvPolicy} [envPolicy]
 * @property {number} [rows]
 * @property {number} [cols]
 * @property {number} [timeoutMs]
 * @property {number} [idleTimeoutMs]
 * @property {number} [closedAfterExitMs]
 * @property {'keep' | 'terminate'} [onDisconnect]
 * @property {'direct' | 'prepared'} [mode]
 * @property {ResourceLimits} [limits]
 * @property {boolean | null} [record]
 * @property {Sandbox} [sandbox]
 * @property {string} [host]
 */

/**
 * @typedef {object} Chunk
 * @property {number} seq
 * @property {Stream} stream
 * @property {number} [offset] absent with servers that lack the extension `gaps`
 * @property {Uint8Array} chunk
 */

/**
 * @typedef {object} ReadResult
 * @property {Chunk[]} chunks
 * @property {number} nextSeq
 * @property {boolean} exited
 * @property {number | null} exitCode
 * @property {boolean} closed
 * @property {string | null} failure
 * @property {boolean} sandboxDenied
 * @property {string | null} [signal]
 * @property {string | null} [reason]
 * @property {number | null} [firstRetainedSeq]
 * @property {number | null} [firstRetainedOffset]
 * @property {number} [evictedBytes]
 */

/**
 * @typedef {object} WriteResult
 * @property {'accepted' | 'stdinClosed' | 'unknownProcess' | 'starting'} status
 * @property {boolean} accepted
 * @property {number} [acceptedBytes]
 */

/**
 * @typedef {object} WaitResult
 * @property {boolean} exited
 * @property {number | null} exitCode
 * @property {string | null} signal
 * @property {string | null} reason
 * @property {boolean} closed
 */

/**
 * @typedef {object} Snapshot
 * @property {Uint8Array} stdout
 * @property {Uint8Array} stderr
 * @property {Uint8Array} terminal
 * @property {boolean} truncated
 * @property {{stdout: number, stderr: number, terminal: number}} headBytes
 * @property {{stdout: number, stderr: number, terminal: number}} droppedBytes
 * @property {boolean} running
 * @property {number | null} exitCode
 * @property {string | null} signal
 */

/**
 * @typedef {object} Screen
 * @property {string[]} rows
 * @property {number} cols
 * @property {{row: number, col: number, visible: boolean}} cursor
 * @property {string} title
 * @property {boolean} complete
 */

/**
 * @typedef {object} ProcessEntry
 * @property {string} processId
 * @property {string[]} argv
 * @property {string} cwd
 * @property {boolean} tty
 * @property {number | null} pid
 * @property {number} startedAtMs
 * @property {boolean} running
 * @property {number | null} exitCode
 * @property {string | null} signal
 * @property {string | null} [host]
 */

/**
 * @typedef {object} Metadata
 * @property {boolean} isDirectory
 * @property {boolean} isFile
 * @property {boolean} isSymlink
 * @property {number} size
 * @property {number} createdAtMs
 * @property {number} modifiedAtMs
 */

/** @typedef {{processId: string, sessionId?: string}} OfProcess */
/** @typedef {{path: string, sandbox?: Sandbox, followSymlinks?: boolean}} OfPath */
/** @typedef {{name: string, value: string}} Header */
/** @typedef {{layers: {source: string, baseDir: string, toml: string}[], cloudInsertionIndex: number}} ConfigLayers */

/**
 * @typedef {object} HttpRequest
 * @property {string} method
 * @property {string} url
 * @property {{name: string, value: string, valueEnvVar?: string | null}[]} [headers]
 * @property {Uint8Array} [bodyBase64]
 * @property {number} [timeoutMs]
 * @property {'follow' | 'stop'} [redirectPolicy]
 * @property {string} requestId
 * @property {boolean} [streamResponse]
 */

/**
 * @typedef {object} WalkOptions
 * @property {number} maxDepth
 * @property {number} maxDirectories
 * @property {number} maxEntries
 * @property {boolean} [followDirectorySymlinks]
 * @property {boolean} [pruneHiddenDirectories]
 */

/**
 * Params and result of each method.
 *
 * @typedef {{
 *   'initialize': {params: InitializeParams, result: InitializeResult},
 *   'environment/info': {params: Empty, result: EnvironmentInfo},
 *   'environment/status': {params: Empty, result: {status: string}},
 *   'process/start': {params: StartParams, result: {processId: string, sandboxType?: string}},
 *   'process/read': {params: OfProcess & {afterSeq?: number | bigint, maxBytes?: number, waitMs?: number}, result: ReadResult},
 *   'process/write': {params: OfProcess & {chunk: Uint8Array, writeId?: string, offset?: number}, result: WriteResult},
 *   'process/closeStdin': {params: OfProcess, result: WriteResult},
 *   'process/wait': {params: OfProcess & {waitMs?: number}, result: WaitResult},
 *   'process/snapshot': {params: OfProcess, result: Snapshot},
 *   'process/screen': {params: OfProcess, result: Screen},
 *   'process/list': {params: {sessionId?: string}, result: {processes: ProcessEntry[]}},
 *   'process/resize': {params: OfProcess & {rows: number, cols: number}, result: Empty},
 *   'process/flow': {params: {processId: string, paused: boolean}, result: Empty},
 *   'process/attach': {params: {processId: string, observeId?: string, sessionId?: string, afterSeq?: number, afterOffset?: number, as?: string}, result: {nextSeq: number}},
 *   'process/detach': {params: {processId: string}, result: Empty},
 *   'process/signal': {params: OfProcess & {signal: string}, result: Empty},
 *   'process/terminate': {params: OfProcess & {mode?: 'force' | 'graceful', timeoutMs?: number}, result: {running: boolean}},
 *   'fs/readFile': {params: OfPath, result: {dataBase64: Uint8Array}},
 *   'fs/writeFile': {params: OfPath & {dataBase64: Uint8Array}, result: Empty},
 *   'fs/createDirectory': {params: OfPath & {recursive?: boolean}, result: Empty},
 *   'fs/getMetadata': {params: OfPath, result: Metadata},
 *   'fs/canonicalize': {params: OfPath, result: {path: string}},
 *   'fs/walk': {params: OfPath & {options: WalkOptions}, result: {entries: {path: string, kind: string}[], errors: {path: string, message: string}[], truncated: boolean}},
 *   'fs/remove': {params: OfPath & {recursive?: boolean, force?: boolean}, result: Empty},
 *   'fs/readDirectory': {params: OfPath, result: {entries: {fileName: string, isDirectory: boolean, isFile: boolean, path?: string}[]}},
 *   'fs/copy': {params: {sourcePath: string, destinationPath: string, recursive?: boolean, sandbox?: Sandbox}, result: Empty},
 *   'fs/open': {params: {handleId: string, path: string, mode?: 'read' | 'write' | 'replace', sandbox?: Sandbox}, result: {handleId: string}},
 *   'fs/readBlock': {params: {handleId: string, offset: number | bigint, len: number}, result: {chunk: Uint8Array, eof: boolean}},
 *   'fs/writeBlock': {params: {handleId: string, offset: number | bigint, chunk: Uint8Array}, result: Empty},
 *   'fs/close': {params: {handleId: string}, result: Empty},
 *   'fs/watchMissing': {params: {watchId: number | bigint, missing: string[], present?: string | null}, result: {watching: boolean}},
 *   'http/request': {params: HttpRequest, result: {status: number, headers: Header[], bodyBase64: Uint8Array}},
 *   'environmentConfig/read': {params: {cwd: string, configPaths: string[][], requirementsPaths: string[][]}, result: {userHomeDir: string, codexHomeDir: string, hostname: string, config: ConfigLayers, requirements: ConfigLayers}},
 *   'capabilities/discoverV2': {params: {cwd: string, sandbox?: Sandbox}, result: {plugins: unknown[], skills: unknown[], warnings: unknown[]}},
 * }} Methods
 */

/**
 * Params of each notification of the server.
 *
 * @typedef {{
 *   'process/output': Chunk & {processId: string},
 *   'process/exited': {processId: string, seq: number, exitCode: number, sandboxDenied: boolean, signal?: string | null, reason?: string},
 *   'process/closed': {processId: string, seq: number},
 *   'process/gap': {processId: string, fromSeq: number, toSeq: number, bytes: number},
 *   'http/request/bodyDelta': {requestId: string, seq: number, deltaBase64: Uint8Array, done: boolean, error: string | null},
 *   'fs/missingChanged': {watchId: number | bigint},
 * }} Notifications
 */

/**
 * How a process ended.
 *
 * @typedef {object} ExitStatus
 * @property {number} exitCode 0 to 255; 128+n for a death by signal n
 * @property {string | null} signal the signal that it died of, `SIGKILL` for instance
 * @property {string} reason `exited`, `signaled`, `terminated`, `timeout`, …: docs/protocol.md, "process/exited"
 */

/** @typedef {{type: 'output', processId: string, seq: number, stream: Stream, offset: number, data: Uint8Array}} OutputEvent A piece of output; `offset` is the bytes of output before it. */
/** @typedef {{type: 'gap', processId: string, fromSeq: number, toSeq: number, bytes: number | null}} GapEvent Output that is lost for good; `bytes` is null where the server does not say how much. */
/** @typedef {{type: 'exited', processId: string, seq: number, status: ExitStatus, sandboxDenied: boolean}} ExitedEvent The process has ended; output may still come. */
/** @typedef {{type: 'closed', processId: string, seq: number}} ClosedEvent Nothing comes any more. */
/** @typedef {{type: 'failed', processId: string, reason: string}} FailedEvent Nothing comes any more, and nobody knows what became of the process. */
/** @typedef {OutputEvent | GapEvent | ExitedEvent | ClosedEvent | FailedEvent} ProcessEvent */

/**
 * How far the output of a process was taken: the seq of the last event, and the bytes of output up to it.
 *
 * @typedef {object} Position
 * @property {number} seq
 * @property {number} offset
 */

export {};
