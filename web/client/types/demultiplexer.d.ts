/** One process that somebody has a handle of: its feed and inbox, and what it needs of the session. */
export class Entry {
    /**
     * @param {string} processId
     * @param {Demultiplexer} demultiplexer
     * @param {Foreign | null} foreign
     * @param {Position | undefined} after
     */
    constructor(processId: string, demultiplexer: Demultiplexer, foreign: Foreign | null, after: Position | undefined);
    /** The request that starts it; null for a process that was there before. @type {Call | null} */
    start: Call | null;
    processId: string;
    foreign: Foreign | null;
    feed: Feed;
    inbox: Inbox;
    /** New events, in their order. None is taken after the last. @param {ProcessEvent[]} events */
    put(events: ProcessEvent[]): void;
    /**
     * The server tells something of it.
     *
     * @param {import('./feed.js').Kind} kind
     * @param {any} params
     */
    notified(kind: import("./feed.js").Kind, params: any): void;
    /** There is no connection: nobody holds the process, and what it prints is not told. */
    cut(): void;
    /** There is one again. */
    resumed(): void;
    /** Have the server tell of a process of another session. Rejects with the ExecServerError of the server. */
    attach(): Promise<void>;
    /** Read what is missing, unless that is under way, or there is no room. */
    catchUp(): void;
    /** Nothing more will be heard of it. @param {string} reason */
    lose(reason: string): void;
    #private;
}
/** The processes of a session that are heard of here; the `Listener` of the session. */
export class Demultiplexer {
    /**
     * @param {Session} session
     * @param {(name: 'disconnected' | 'reconnected' | 'lost' | 'notification', detail: unknown) => void} tell
     */
    constructor(session: Session, tell: (name: "disconnected" | "reconnected" | "lost" | "notification", detail: unknown) => void);
    session: import("./session.js").Session;
    tell: (name: "disconnected" | "reconnected" | "lost" | "notification", detail: unknown) => void;
    /**
     * Hear of a process from now on, until its last event.
     *
     * @param {string} processId
     * @param {Foreign | null} [foreign]
     * @param {Position} [after]
     * @throws {InvalidRequest} if it is heard of already
     */
    add(processId: string, foreign?: Foreign | null, after?: Position): Entry;
    /** Hear no more of a process. @param {Entry} entry */
    remove(entry: Entry): void;
    /** @param {string} method @param {any} params */
    notified(method: string, params: any): void;
    /** @param {string} reason */
    cut(reason: string): void;
    resumed(): void;
    /** @param {string} reason */
    lost(reason: string): void;
    #private;
}
export type Call = import("./calls.js").Call;
export type Position = import("./protocol.js").Position;
export type ProcessEvent = import("./protocol.js").ProcessEvent;
export type Session = import("./session.js").Session;
/**
 * A process of another session: one of the two ids is there.
 */
export type Foreign = {
    /**
     * its id in its own session
     */
    processId: string;
    sessionId?: string | undefined;
    observeId?: string | undefined;
};
import { Feed } from './feed.js';
import { Inbox } from './inbox.js';
