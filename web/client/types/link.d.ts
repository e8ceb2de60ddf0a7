/**
 * Connect.
 *
 * @param {string} url
 * @param {LinkOptions} options
 * @returns {Promise<Link>}
 * @throws {ConnectFailed} also when it takes too long; the browser does not tell a page why
 */
export function openLink(url: string, options: LinkOptions): Promise<Link>;
/** The one id that no call has: what is answered to it is only a sign of life. */
export const PROBE_ID: "sign-of-life";
/** An open WebSocket. `onmessage` hears each message, `onclosed` once of the end, unless `close` was called before. */
export class Link {
    /** @param {WebSocket} socket @param {LinkOptions} options */
    constructor(socket: WebSocket, options: LinkOptions);
    /** @type {(message: Message) => void} */
    onmessage: (message: Message) => void;
    /** @type {(reason: string) => void} */
    onclosed: (reason: string) => void;
    /** Why it is over; null while it is not. @type {string | null} */
    end: string | null;
    /** @param {Message} message @throws {TypeError} for what cannot be encoded */
    send(message: Message): void;
    /** Bytes that the socket has taken and not sent yet. */
    get bufferedBytes(): number;
    /** Say goodbye; nothing is heard any more. */
    close(): void;
    /** Ask for a sign of life; without one the link ends. */
    probe(): void;
    /** It is over; `onclosed` hears of it. @param {string} reason */
    fail(reason: string): void;
    #private;
}
export type Codec = import("./codec.js").Codec;
export type Message = import("./codec.js").Message;
export type LinkOptions = {
    codec: Codec;
    token: string | undefined;
    /**
     * how long connecting may take
     */
    timeoutMs: number;
    methodOf: (id: unknown) => string | undefined;
};
