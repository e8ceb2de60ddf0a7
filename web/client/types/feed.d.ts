/** The events of one process. */
export class Feed {
    /** @param {string} processId @param {Position} [after] where to begin */
    constructor(processId: string, after?: Position);
    /** Some events are missing, and have to be read with `afterSeq` = `lastSeq`. */
    behind: boolean;
    exited: boolean;
    closed: boolean;
    /** Everything up to this number has been told, or is in a gap. */
    lastSeq: number;
    /** Bytes of output up to there. */
    endOffset: number;
    processId: string;
    /** What happens from now on is not notified, or not taken. */
    miss(): void;
    /** The server sends everything after `lastSeq` anew, and tells what is missing. */
    attached(): void;
    /**
     * What a notification brings: nothing, if it is known already or there is a hole before it.
     *
     * @param {Kind} kind
     * @param {any} params
     * @returns {ProcessEvent[]}
     */
    notified(kind: Kind, params: any): ProcessEvent[];
    /**
     * What the answer to a read after `lastSeq` brings. Unless `behind` is over then, read once more.
     *
     * @param {ReadResult} result
     * @returns {ProcessEvent[]}
     */
    read(result: ReadResult): ProcessEvent[];
    #private;
}
export type Chunk = import("./protocol.js").Chunk;
export type Position = import("./protocol.js").Position;
export type ProcessEvent = import("./protocol.js").ProcessEvent;
export type ReadResult = import("./protocol.js").ReadResult;
export type Kind = "process/output" | "process/exited" | "process/closed" | "process/gap";
