/**
 * A process on a server. Made by `start`, `attach` and `watch` of a client.
 *
 * Its output waits here until it is taken: up to 4 MiB, then the server is asked to hold the process. So who only calls
 * `wait`, and leaves output where it is, may wait for ever, as with pipes.
 *
 * A cut connection is resumed behind the back of all this. If that fails the events end with one of type `failed`, and
 * everything else throws TransportDisconnected.
 */
export class Process {
    /**
     * Not for users: see the class.
     *
     * @param {Session} session
     * @param {Entry} entry
     * @param {{argv?: string[], tty?: boolean}} facts
     */
    constructor(session: Session, entry: Entry, { argv, tty }: {
        argv?: string[];
        tty?: boolean;
    });
    /** The output that `events` has told of so far: where to go on, `attach(id, {after})`, in another page. @type {Position} */
    position: Position;
    /** The id under which this client hears of it. */
    id: string;
    /** Program and arguments; undefined for a process that is watched by its `observeId`. */
    argv: string[] | undefined;
    /** Whether it is on a terminal; undefined as well. */
    tty: boolean | undefined;
    /** How it ended, as `wait` returns it; null before that is known. @returns {ExitStatus | null} */
    get exitStatus(): ExitStatus | null;
    /** Bytes of its output that wait here to be taken. */
    get waitingBytes(): number;
    /**
     * All that happens to it, in order: output, gaps, the exit, and at the end `closed` or `failed`. Each event is told
     * once, whoever asks.
     *
     * @returns {AsyncGenerator<ProcessEvent, void, void>}
     */
    events(): AsyncGenerator<ProcessEvent, void, void>;
    /**
     * The events that wait now, without waiting for any.
     *
     * @param {number} [maxBytes] bytes of output from which no more is taken
     * @returns {ProcessEvent[]}
     */
    takeEvents(maxBytes?: number): ProcessEvent[];
    /** Standard output; all output, for a process on a terminal. A gap is an error: OutputGap. */
    get stdout(): ReadableStream<Uint8Array<ArrayBufferLike>>;
    /** Standard error; nothing, for a process on a terminal. */
    get stderr(): ReadableStream<Uint8Array<ArrayBufferLike>>;
    /** Wait until the process has exited. Output may still come afterwards. @returns {Promise<ExitStatus>} */
    wait(): Promise<ExitStatus>;
    /** What its terminal shows. @returns {Promise<import('./protocol.js').Screen>} */
    screen(): Promise<import("./protocol.js").Screen>;
    /** The beginning and the end of its output. @returns {Promise<import('./protocol.js').Snapshot>} */
    snapshot(): Promise<import("./protocol.js").Snapshot>;
    /**
     * Write to its standard input; resolves when the server has all of it, which waits for a process that does not read.
     *
     * Writes are done in the order of their calls. What a cut leaves unanswered is sent again, and arrives once.
     *
     * @param {string | Uint8Array} data
     * @throws {StdinClosed} if standard input is closed, was never open, or the process has ended
     */
    write(data: string | Uint8Array): Promise<void>;
    /** The end of the input, behind all writes before it; on a terminal what ^D is at this moment. */
    closeStdin(): Promise<void>;
    /** A new size for its terminal. @param {number} rows @param {number} cols @returns {Promise<void>} */
    resize(rows: number, cols: number): Promise<void>;
    /** Send a signal to its process group: `interrupt`, or a name such as `SIGTERM`. @param {string} signal */
    signal(signal: string): Promise<void>;
    /**
     * SIGTERM, and after `graceMs` SIGKILL to what is left of it and its descendants. Whether it was running.
     *
     * @param {number} [graceMs]
     * @returns {Promise<boolean>}
     */
    terminate(graceMs?: number): Promise<boolean>;
    /** SIGKILL to it and its descendants. Whether it was running. @returns {Promise<boolean>} */
    kill(): Promise<boolean>;
    /** Hear no more of it. A watched process is watched no longer; one's own goes on, and can be attached again. */
    detach(): Promise<void>;
    [Symbol.asyncIterator](): AsyncGenerator<import("./protocol.js").ProcessEvent, void, void>;
    #private;
}
export type Entry = import("./demultiplexer.js").Entry;
export type QueueName = import("./inbox.js").QueueName;
export type ExitStatus = import("./protocol.js").ExitStatus;
export type Position = import("./protocol.js").Position;
export type ProcessEvent = import("./protocol.js").ProcessEvent;
export type Session = import("./session.js").Session;
