/**
 * One value, in the shortest form. Members that are `undefined` are left out, as JSON does.
 *
 * @param {unknown} value
 * @returns {Uint8Array<ArrayBuffer>}
 * @throws {TypeError} for what MessagePack has no form for
 */
export function encodeMsgpack(value: unknown): Uint8Array<ArrayBuffer>;
/**
 * The one value that the bytes are. Raw bytes are parts of `bytes`, not copies.
 *
 * @param {Uint8Array} bytes
 * @returns {unknown}
 * @throws {DecodeError} for what is cut off, has more behind it, or is not of the protocol
 */
export function decodeMsgpack(bytes: Uint8Array): unknown;
