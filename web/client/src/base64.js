/**
 * Base64 with the standard alphabet and padding (RFC 4648, section 4), which is how JSON messages carry bytes.
 *
 * @module
 */

import { DecodeError } from './errors.js';

/** Bytes that `String.fromCharCode` takes at a time; engines bound the number of arguments. */
const SLICE = 0x8000;

/** Engines that have it do it natively, and much faster. @type {any} */
const native = Uint8Array;

/**
 * @param {Uint8Array} bytes
 * @returns {string}
 */
export function encodeBase64(bytes) {
  if (typeof native.prototype.toBase64 === 'function') {
    return /** @type {any} */ (bytes).toBase64();
  }
  let text = '';
  for (let start = 0; start < bytes.length; start += SLICE) {
    text += String.fromCharCode(...bytes.subarray(start, start + SLICE));
  }
  return btoa(text);
}

/**
 * @param {string} text
 * @returns {Uint8Array}
 * @throws {DecodeError} for what is not base64
 */
export function decodeBase64(text) {
  try {
    if (typeof native.fromBase64 === 'function') return native.fromBase64(text);
    const binary = atob(text);
    const bytes = new Uint8Array(binary.length);
    for (let index = 0; index < binary.length; index += 1) bytes[index] = binary.charCodeAt(index);
    return bytes;
  } catch {
    throw new DecodeError(`not base64: ${JSON.stringify(text.slice(0, 40))}`);
  }
}
