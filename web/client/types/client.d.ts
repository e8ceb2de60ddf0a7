/** @typedef {import('./protocol.js').ExitStatus} ExitStatus */
/** @typedef {import('./protocol.js').Methods} Methods */
/** @typedef {import('./protocol.js').Position} Position */
/** @typedef {import('./protocol.js').ProcessEntry} ProcessEntry */
/** @typedef {import('./start.js').StartOptions} StartOptions */
/**
 * @typedef {object} ConnectOptions
 * @property {string} [token] for `--ws-auth`; not in a page, which comes in by its cookie
 * @property {string} [clientName] for people
 * @property {string | null} [resumeSessionId] go on with this session
 * @property {number} [sessionTtlMs] how long the new session lives without a connection; the server's, if absent
 * @property {'msgpack' | 'json'} [encoding] MessagePack is a third less on the wire; JSON is for servers without it,
 *   which a browser does not let be connected to with MessagePack
 * @property {number} [connectMs] how long a connection and its handshake may take; 10 s, if absent
 * @property {number} [reconnectMs] how long a session is tried to be resumed after a cut; 45 s, if absent. May be Infinity.
 */
/**
 * Connect to a server.
 *
 * @param {string} url `ws://HOST:PORT` or `wss://HOST:PORT`
 * @param {ConnectOptions} [options]
 * @returns {Promise<ExecServerClient>}
 * @throws {import('./errors.js').ConnectFailed}
 * @throws {import('./errors.js').ExecServerError} what the server answers: InvalidRequest for an unknown session,
 *   SessionAttached for one that another connection holds
 */
export function connect(url: string, options?: ConnectOptions): Promise<ExecServerClient>;
/**
 * Starts processes on a server, and hears of them. Made by `connect`.
 *
 * Its events, for `addEventListener`, are CustomEvents: `disconnected` (`detail.reason`) and `reconnected` for each cut,
 * `lost` (`detail.reason`) when the session is over, and `notification` (`detail.method`, `detail.params`) for all that is
 * not of a process.
 */
export class ExecServerClient extends EventTarget {
    /** Not for users: see `connect`. @param {Session} session */
    constructor(session: Session);
    /** Not for users: see `connect`. */
    open(): Promise<void>;
    /** Id of the session. Whoever knows it has full power over the session: it is a secret. */
    get sessionId(): string;
    /** With this id others can watch the session. */
    get observeId(): string;
    /** What the server's machine is. */
    get environmentInfo(): import("./protocol.js").EnvironmentInfo;
    /** The additions to the wire that the server has in force, by their names in docs/protocol.md. */
    get extensions(): string[];
    /** Whether there is a connection at this moment. */
    get connected(): boolean;
    /**
     * Any request of docs/protocol.md: `await client.call('process/list', {})`. Bytes are Uint8Arrays.
     *
     * @template {keyof Methods} M
     * @param {M} method
     * @param {Methods[M]['params']} params
     * @returns {Promise<Methods[M]['result']>}
     * @throws {import('./errors.js').ExecServerError} what the server answers
     * @throws {import('./errors.js').TransportDisconnected} if the session is lost, or the connection before an answer to
     *   what cannot be repeated
     */
    call<M extends keyof Methods>(method: M, params: Methods[M]["params"]): Promise<Methods[M]["result"]>;
    /**
     * Start a program; resolves when it is being executed. A start is never sent twice.
     *
     * @param {string[]} argv
     * @param {StartOptions} [options]
     * @returns {Promise<Process>}
     * @throws {import('./errors.js').SpawnError} if it cannot be started
     * @throws {import('./errors.js').ProcessExists} if its id is in use
     * @throws {import('./errors.js').TransportDisconnected} if the session is lost, or the connection was cut before the
     *   program was started
     */
    start(argv: string[], options?: StartOptions): Promise<Process>;
    /**
     * Run a program to its end, and collect its output.
     *
     * @param {string[]} argv
     * @param {StartOptions & {input?: string | Uint8Array}} [options] `input` is written to its standard input
     * @returns {Promise<ExitStatus & {stdout: Uint8Array, stderr: Uint8Array}>}
     */
    run(argv: string[], { input, ...options }?: StartOptions & {
        input?: string | Uint8Array;
    }): Promise<ExitStatus & {
        stdout: Uint8Array;
        stderr: Uint8Array;
    }>;
    /** All processes of the session whose record is there, in the order of their starts. @returns {Promise<ProcessEntry[]>} */
    list(): Promise<ProcessEntry[]>;
    /**
     * A handle of a process of this session that has none here: one that was started before a resume.
     *
     * @param {string} processId
     * @param {{after?: Position}} [options] where its output was left: `position` of the handle there was; without it, what
     *   the server has retained comes, with a gap before it if that is not all
     * @returns {Promise<Process>}
     * @throws {UnknownProcess} if there is none of this id
     * @throws {import('./errors.js').InvalidRequest} if it has a handle here
     */
    attach(processId: string, { after }?: {
        after?: Position;
    }): Promise<Process>;
    /**
     * A handle of a process of another session. With its `sessionId` it can be used like one's own; with an `observeId` it can
     * only be looked at.
     *
     * @param {string} processId
     * @param {{sessionId?: string, observeId?: string, after?: Position}} options
     * @returns {Promise<Process>}
     * @throws {import('./errors.js').ExecServerError} what the server answers
     */
    watch(processId: string, { sessionId, observeId, after }: {
        sessionId?: string;
        observeId?: string;
        after?: Position;
    }): Promise<Process>;
    /**
     * Try to reconnect at once, or see whether the connection lives: for a page that is shown again, or a machine that is
     * back on the network.
     */
    hurry(): void;
    /** End the connection. The session, and its processes, live on at the server for as long as its lifetime says. */
    close(): void;
    #private;
}
export type ExitStatus = import("./protocol.js").ExitStatus;
export type Methods = import("./protocol.js").Methods;
export type Position = import("./protocol.js").Position;
export type ProcessEntry = import("./protocol.js").ProcessEntry;
export type StartOptions = import("./start.js").StartOptions;
export type ConnectOptions = {
    /**
     * for `--ws-auth`; not in a page, which comes in by its cookie
     */
    token?: string | undefined;
    /**
     * for people
     */
    clientName?: string | undefined;
    /**
     * go on with this session
     */
    resumeSessionId?: string | null | undefined;
    /**
     * how long the new session lives without a connection; the server's, if absent
     */
    sessionTtlMs?: number | undefined;
    /**
     * MessagePack is a third less on the wire; JSON is for servers without it,
     * which a browser does not let be connected to with MessagePack
     */
    encoding?: "json" | "msgpack" | undefined;
    /**
     * how long a connection and its handshake may take; 10 s, if absent
     */
    connectMs?: number | undefined;
    /**
     * how long a session is tried to be resumed after a cut; 45 s, if absent. May be Infinity.
     */
    reconnectMs?: number | undefined;
};
import { Process } from './process.js';
import { Session } from './session.js';
