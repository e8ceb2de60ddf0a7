/** @type {Codec} */
export const JSON_CODEC: Codec;
/** @type {Codec} */
export const MSGPACK_CODEC: Codec;
/**
 * One object: a request, a notification, a result or an error.
 */
export type Message = Record<string, any>;
export type Codec = {
    /**
     * what a WebSocket is asked for
     */
    subprotocol: string | null;
    encode: (message: Message) => string | Uint8Array<ArrayBuffer>;
    /**
     * `methodOf`
     * tells what an answer answers, by its id; throws DecodeError for what is no message
     */
    decode: (data: string | ArrayBuffer, methodOf: (id: unknown) => string | undefined) => Message;
};
