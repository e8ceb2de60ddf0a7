/**
 * What has come of one process and was not taken yet: one queue for each stream, with one bound for all of them.
 *
 * Somebody who takes stdout alone, and somebody who takes everything in order, take from the same inbox; each event is
 * taken once. A gap belongs to every stream, because nobody can tell which it was in; who takes everything in order sees
 * it once.
 *
 * @module
 */
/** @typedef {import('./protocol.js').ProcessEvent} ProcessEvent */
/** @typedef {'stdout' | 'stderr' | 'pty' | 'state'} QueueName */
/** Bytes that wait here from which the server is asked to hold the process. */
export const HOLD_FROM: number;
/** Bytes below which it is asked to go on. */
export const RELEASE_BELOW: number;
/** Bytes from which nothing more is taken: where the server cannot hold a process, or does not. */
export const BOUND: number;
/** @type {readonly QueueName[]} */
export const EVERYTHING: readonly QueueName[];
/** The events of one process that wait to be taken. */
export class Inbox {
    /** @param {() => void} [sizeChanged] called when `size` has grown or shrunk */
    constructor(sizeChanged?: () => void);
    /** Bytes that wait. */
    size: number;
    /** The last event, once it has come; nothing is put after it. @type {ProcessEvent | null} */
    end: ProcessEvent | null;
    /** @type {import('./protocol.js').ExitedEvent | null} */
    exit: import("./protocol.js").ExitedEvent | null;
    /** Append events and wake whoever waits for one. @param {ProcessEvent[]} events */
    put(events: ProcessEvent[]): void;
    /**
     * The oldest event that waits in these queues; null if there is none now.
     *
     * @param {readonly QueueName[]} names
     * @returns {ProcessEvent | null}
     */
    take(names: readonly QueueName[]): ProcessEvent | null;
    /**
     * The oldest event in these queues, waited for; null once the last event has come and none is left there.
     *
     * @param {readonly QueueName[]} names
     * @returns {Promise<ProcessEvent | null>}
     */
    get(names: readonly QueueName[]): Promise<ProcessEvent | null>;
    /** Wait until something is put. @returns {Promise<void>} */
    change(): Promise<void>;
    #private;
}
export type ProcessEvent = import("./protocol.js").ProcessEvent;
export type QueueName = "stdout" | "stderr" | "pty" | "state";
