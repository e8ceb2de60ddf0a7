/** A session and its requests. `open` comes first, `close` last. */
export class Session {
    /** @param {SessionOptions} options */
    constructor(options: SessionOptions);
    /** What the server told at the last handshake. @type {InitializeResult} */
    facts: InitializeResult;
    /** Why the session is lost; null while it is not. @type {string | null} */
    loss: string | null;
    /** Whether there is a connection at this moment. */
    get connected(): boolean;
    /** Whether an addition to the wire is in force, by its name in docs/protocol.md. @param {string} extension */
    has(extension: string): boolean;
    /**
     * Connect, and begin to listen.
     *
     * @param {Listener} listener
     * @throws {ConnectFailed}
     * @throws {import('./errors.js').ExecServerError} what the server answers to `initialize`
     */
    open(listener: Listener): Promise<void>;
    /**
     * Make a request. While there is no connection it waits for one.
     *
     * @param {string} method
     * @param {Record<string, any>} params
     * @param {boolean} [repeat] whether this one may be sent again after a cut, although others of its kind may not
     * @returns {Call}
     * @throws {TransportDisconnected} once the session is lost
     */
    post(method: string, params: Record<string, any>, repeat?: boolean): Call;
    /** Wait no longer for an answer. @param {Call} call */
    drop(call: Call): void;
    /** Try to reconnect at once; on a connection, ask for a sign of life. */
    hurry(): void;
    /** End the connection. What is not answered yet fails. */
    close(): void;
    #private;
}
export type Call = import("./calls.js").Call;
export type Codec = import("./codec.js").Codec;
export type Message = import("./codec.js").Message;
export type Link = import("./link.js").Link;
export type InitializeParams = import("./protocol.js").InitializeParams;
export type InitializeResult = import("./protocol.js").InitializeResult;
/**
 * Hears what happens in a session.
 */
export type Listener = {
    /**
     * the server tells something
     */
    notified: (method: string, params: any) => void;
    /**
     * the connection is gone
     */
    cut: (reason: string) => void;
    /**
     * there is a connection again
     */
    resumed: () => void;
    /**
     * there will be none
     */
    lost: (reason: string) => void;
};
export type SessionOptions = {
    url: string;
    codec: Codec;
    token: string | undefined;
    initialize: InitializeParams;
    /**
     * how long a connection and its handshake may take
     */
    connectMs: number;
    /**
     * how long a session is tried to be resumed after a cut
     */
    reconnectMs: number;
};
