/**
 * The error that an answer of the server stands for. An unknown code is an ExecServerError.
 *
 * @param {{code: number, message: string, data?: Record<string, unknown> | null}} error
 * @returns {ExecServerError}
 */
export function errorOf({ code, message, data }: {
    code: number;
    message: string;
    data?: Record<string, unknown> | null;
}): ExecServerError;
/**
 * Errors of the client. What the server answers with is an ExecServerError, with its `code` and `data`.
 *
 * Error
 * ├── ExecServerError          an answer of the server; see docs/protocol.md, "Errors"
 * │   ├── InvalidRequest       -32600
 * │   │   ├── UnknownProcess   kind `unknownProcess`
 * │   │   └── ProcessExists    kind `processExists`
 * │   ├── MethodNotFound       -32601
 * │   ├── InvalidParams        -32602
 * │   ├── NotFound             -32004
 * │   ├── SessionAttached      -32010
 * │   └── InternalError        -32603
 * │       └── SpawnError       kind `spawnNotFound`, `spawnPermissionDenied`, `spawnFailed`
 * ├── ConnectFailed            there was no connection to begin with
 * ├── TransportDisconnected    the connection is gone, and its session or a request with it
 * ├── OutputGap                output was evicted by the server before it could be read
 * ├── StdinClosed              input for a process that takes none any more
 * └── DecodeError              a message that is not one of the protocol
 *
 * @module
 */
/** An error that the server answered with. `code` and `kind` are for programs, `message` is for people. */
export class ExecServerError extends Error {
    /**
     * @param {string} message
     * @param {number} code JSON-RPC code, -32603 for instance
     * @param {Record<string, unknown> | null} [data]
     */
    constructor(message: string, code: number, data?: Record<string, unknown> | null);
    /** Code of the error: docs/protocol.md, "Errors". */
    code: number;
    /** What the server says for programs; null if it says nothing. */
    data: Record<string, unknown> | null;
    /** `data.kind`, on which a program may decide; null if there is none. @returns {string | null} */
    get kind(): string | null;
}
/** A request at the wrong time, or about something unknown. */
export class InvalidRequest extends ExecServerError {
}
/** There is no process of this id, or its record is gone. */
export class UnknownProcess extends InvalidRequest {
}
/** The id of a new process is in use. */
export class ProcessExists extends InvalidRequest {
}
/** The server does not have this method. */
export class MethodNotFound extends ExecServerError {
}
/** Params of the wrong shape or value; the message names the member. */
export class InvalidParams extends ExecServerError {
}
/** A file or a file handle that does not exist. */
export class NotFound extends ExecServerError {
}
/** The session is held by another connection, which lives. */
export class SessionAttached extends ExecServerError {
}
/** The machine or the server could not do it. */
export class InternalError extends ExecServerError {
}
/** A program that could not be started; `data.reason` says what was at fault. */
export class SpawnError extends InternalError {
}
/** No connection to the server came about; the text says where to and why. */
export class ConnectFailed extends Error {
}
/** The connection is gone and the session cannot be resumed, or a request got lost with a connection. */
export class TransportDisconnected extends Error {
    /** @param {string} reason what ended it */
    constructor(reason: string);
    reason: string;
}
/** Output of a process is missing: the server could not keep it. Reading may go on behind the gap. */
export class OutputGap extends Error {
    /**
     * @param {string} processId
     * @param {number} fromSeq first event that is lost
     * @param {number} toSeq last one
     * @param {number | null} bytes of output that are lost, of whatever streams; null where the server does not say
     */
    constructor(processId: string, fromSeq: number, toSeq: number, bytes: number | null);
    processId: string;
    fromSeq: number;
    toSeq: number;
    bytes: number | null;
}
/** Input for a process whose standard input is closed, or was never open, or which has ended. */
export class StdinClosed extends Error {
}
/** What came is not a message of the protocol. */
export class DecodeError extends Error {
}
