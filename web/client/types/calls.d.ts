/**
 * Whether a request that may have been carried out can be sent again.
 *
 * @param {string} method
 * @param {Record<string, any>} params
 */
export function mayRepeat(method: string, params: Record<string, any>): boolean;
/** One request, and the promise of its result. */
export class Call {
    /**
     * @param {number} id
     * @param {string} method
     * @param {Record<string, any>} params
     * @param {boolean} repeat whether it may be sent again after a cut
     */
    constructor(id: number, method: string, params: Record<string, any>, repeat: boolean);
    /** It may have reached the server. */
    sent: boolean;
    done: boolean;
    id: number;
    method: string;
    params: Record<string, any>;
    repeat: boolean;
    /** @type {Promise<any>} */
    promise: Promise<any>;
    resolveWith: (value: any) => void;
    rejectWith: (reason?: any) => void;
    /** @param {unknown} result */
    succeed(result: unknown): void;
    /** @param {Error} error */
    fail(error: Error): void;
}
/** All unanswered requests of a session, in the order in which they were made. */
export class Calls {
    /**
     * @param {string} method
     * @param {Record<string, any>} params
     * @param {boolean} [repeat] whether this one may be sent again, although others of its kind may not
     */
    add(method: string, params: Record<string, any>, repeat?: boolean): Call;
    /** The method that an answer of this id answers. @param {unknown} id */
    methodOf(id: unknown): string | undefined;
    /** The server has answered: the call is no longer open. @param {unknown} id */
    take(id: unknown): Call | undefined;
    /** Wait no longer for an answer. @param {Call} call @param {Error} error */
    drop(call: Call, error: Error): void;
    /** No answer will ever come. @param {Error} error */
    failAll(error: Error): void;
    /**
     * Drop what must not be sent again: starts, which are returned, and all else, which is failed with `reason`. What
     * stays is to be sent on the next connection.
     *
     * @param {string} reason
     * @returns {Call[]}
     */
    loseConnection(reason: string): Call[];
    [Symbol.iterator](): ArrayIterator<Call>;
    #private;
}
