/**
 * Where a stream for a terminal may be cut without a sequence being torn. Pure.
 *
 * @module
 */

const ESC = 0x1b;
const BEL = 0x07;
/** `]`, `P`, `X`, `^`, `_`: what follows goes on until ESC \ (ECMA-48, 5.6). */
const STRINGS = new Set([0x5d, 0x50, 0x58, 0x5e, 0x5f]);

/**
 * How many bytes at the end are the beginning of a control sequence, or of a character in UTF-8, that is not complete.
 *
 * @param {Uint8Array} bytes the end of a stream
 */
export function incompleteBytes(bytes) {
  for (let at = bytes.length - 1; at >= 0; at -= 1) {
    if (bytes[at] !== ESC) continue;
    if (at + 1 < bytes.length && bytes[at + 1] === 0x5c) break; // the end of a string
    if (isComplete(bytes, at)) break;
    return bytes.length - (at === bytes.length - 1 ? stringAround(bytes, at) : at);
  }
  return incompleteCharacter(bytes);
}

/** A lone ESC may be the first half of the end of a string; then the string is not complete. @param {Uint8Array} bytes @param {number} end */
function stringAround(bytes, end) {
  for (let at = end - 1; at >= 0; at -= 1) {
    if (bytes[at] === BEL) break;
    if (bytes[at] === ESC) return STRINGS.has(bytes[at + 1]) ? at : end;
  }
  return end;
}

/** @param {Uint8Array} bytes @param {number} at */
function isComplete(bytes, at) {
  const kind = bytes[at + 1];
  if (kind === undefined) return false;
  if (kind === 0x5b) return bytes.subarray(at + 2).some((byte) => byte >= 0x40 && byte <= 0x7e);
  if (STRINGS.has(kind)) return bytes.subarray(at + 2).includes(BEL);
  if (kind >= 0x20 && kind <= 0x2f) return bytes.subarray(at + 2).some((byte) => byte >= 0x30 && byte <= 0x7e);
  return true;
}

/** @param {Uint8Array} bytes */
function incompleteCharacter(bytes) {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back];
    if (byte < 0x80) return 0;
    if (byte >= 0xc0) return back < (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) ? back : 0;
  }
  return 0;
}
