/**
 * @param {Uint8Array} bytes
 * @returns {string}
 */
export function encodeBase64(bytes: Uint8Array): string;
/**
 * @param {string} text
 * @returns {Uint8Array}
 * @throws {DecodeError} for what is not base64
 */
export function decodeBase64(text: string): Uint8Array;
