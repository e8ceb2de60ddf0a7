/**
 * MessagePack, as far as the protocol goes: no extension types, keys are strings, numbers are finite.
 *
 * Integers that a JavaScript number cannot hold exactly are BigInts in both directions; all others are numbers.
 *
 * @module
 */

import { DecodeError } from './errors.js';

/** Arrays and maps within each other, at most. */
const DEPTH = 128;

const utf8 = new TextEncoder();
const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * One value, in the shortest form. Members that are `undefined` are left out, as JSON does.
 *
 * @param {unknown} value
 * @returns {Uint8Array<ArrayBuffer>}
 * @throws {TypeError} for what MessagePack has no form for
 */
export function encodeMsgpack(value) {
  const writer = new Writer();
  writer.write(value, 0);
  return writer.bytes.subarray(0, writer.length);
}

class Writer {
  length = 0;
  bytes = new Uint8Array(256);
  view = new DataView(this.bytes.buffer);

  /** Make room for so many bytes; where they begin. @param {number} size */
  room(size) {
    const start = this.length;
    this.length += size;
    if (this.length > this.bytes.length) {
      const larger = new Uint8Array(Math.max(this.length, this.bytes.length * 2));
      larger.set(this.bytes);
      this.bytes = larger;
      this.view = new DataView(larger.buffer);
    }
    return start;
  }

  /** @param {unknown} value @param {number} depth */
  write(value, depth) {
    if (depth > DEPTH) throw new TypeError(`nested more than ${DEPTH} deep`);
    if (value === null || value === undefined) this.byte(0xc0);
    else if (value === true || value === false) this.byte(value ? 0xc3 : 0xc2);
    else if (typeof value === 'number') this.number(value);
    else if (typeof value === 'bigint') this.integer(value);
    else if (typeof value === 'string') this.string(value);
    else if (value instanceof Uint8Array) this.binary(value);
    else if (Array.isArray(value)) this.array(value, depth);
    else if (typeof value === 'object') this.map(/** @type {Record<string, unknown>} */ (value), depth);
    else throw new TypeError(`MessagePack has no ${typeof value}`);
  }

  /** @param {number} byte */
  byte(byte) {
    const at = this.room(1);
    this.bytes[at] = byte;
  }

  /** A type byte and a length of 8, 16 or 32 bits behind it. @param {number} length @param {number[]} types */
  head(length, [small, medium, large]) {
    if (length < 0x100 && small) {
      const at = this.room(2);
      this.bytes[at] = small;
      this.bytes[at + 1] = length;
    } else if (length < 0x10000) {
      const at = this.room(3);
      this.bytes[at] = medium;
      this.view.setUint16(at + 1, length);
    } else {
      const at = this.room(5);
      this.bytes[at] = large;
      this.view.setUint32(at + 1, length);
    }
  }

  /** @param {number} value */
  number(value) {
    if (!Number.isFinite(value)) throw new TypeError(`${value} is no number of the protocol`);
    if (Number.isSafeInteger(value) && !Object.is(value, -0)) {
      if (value >= 0 && value < 0x80) return this.byte(value);
      return this.integer(BigInt(value));
    }
    const at = this.room(9);
    this.bytes[at] = 0xcb;
    this.view.setFloat64(at + 1, value);
  }

  /** @param {bigint} value */
  integer(value) {
    if (value >= 0n) {
      if (value < 0x80n) return this.byte(Number(value));
      if (value < 0x1_0000_0000n) return this.head(Number(value), [0xcc, 0xcd, 0xce]);
      if (value >= 1n << 64n) throw new TypeError(`${value} has more than 64 bits`);
      const at = this.room(9);
      this.bytes[at] = 0xcf;
      this.view.setBigUint64(at + 1, value);
    } else if (value >= -0x80n) {
      if (value >= -0x20n) return this.byte(Number(value) & 0xff);
      const at = this.room(2);
      this.bytes[at] = 0xd0;
      this.view.setInt8(at + 1, Number(value));
    } else if (value >= -0x8000n) {
      const at = this.room(3);
      this.bytes[at] = 0xd1;
      this.view.setInt16(at + 1, Number(value));
    } else if (value >= -0x8000_0000n) {
      const at = this.room(5);
      this.bytes[at] = 0xd2;
      this.view.setInt32(at + 1, Number(value));
    } else {
      if (value < -(1n << 63n)) throw new TypeError(`${value} has more than 64 bits`);
      const at = this.room(9);
      this.bytes[at] = 0xd3;
      this.view.setBigInt64(at + 1, value);
    }
  }

  /** @param {string} value */
  string(value) {
    const encoded = utf8.encode(value);
    if (encoded.length < 0x20) this.byte(0xa0 | encoded.length);
    else this.head(encoded.length, [0xd9, 0xda, 0xdb]);
    this.append(encoded);
  }

  /** @param {Uint8Array} value */
  binary(value) {
    this.head(value.length, [0xc4, 0xc5, 0xc6]);
    this.append(value);
  }

  /** @param {Uint8Array} bytes */
  append(bytes) {
    const at = this.room(bytes.length);
    this.bytes.set(bytes, at);
  }

  /** @param {unknown[]} values @param {number} depth */
  array(values, depth) {
    if (values.length < 0x10) this.byte(0x90 | values.length);
    else this.head(values.length, [0, 0xdc, 0xdd]);
    for (const value of values) this.write(value, depth + 1);
  }

  /** @param {Record<string, unknown>} members @param {number} depth */
  map(members, depth) {
    const present = Object.entries(members).filter(([, value]) => value !== undefined);
    if (present.length < 0x10) this.byte(0x80 | present.length);
    else this.head(present.length, [0, 0xde, 0xdf]);
    for (const [key, value] of present) {
      this.string(key);
      this.write(value, depth + 1);
    }
  }
}

/**
 * The one value that the bytes are. Raw bytes are parts of `bytes`, not copies.
 *
 * @param {Uint8Array} bytes
 * @returns {unknown}
 * @throws {DecodeError} for what is cut off, has more behind it, or is not of the protocol
 */
export function decodeMsgpack(bytes) {
  const reader = new Reader(bytes);
  const value = reader.read(0);
  if (reader.at !== bytes.length) throw new DecodeError(`${bytes.length - reader.at} bytes behind a message`);
  return value;
}

class Reader {
  at = 0;

  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** Where the next so many bytes begin. @param {number} size */
  take(size) {
    const start = this.at;
    if (start + size > this.bytes.length) throw new DecodeError('a message is cut off');
    this.at = start + size;
    return start;
  }

  /** @param {number} depth @returns {unknown} */
  read(depth) {
    if (depth > DEPTH) throw new DecodeError(`nested more than ${DEPTH} deep`);
    const type = this.bytes[this.take(1)];
    if (type < 0x80) return type;
    if (type < 0x90) return this.map(type & 0xf, depth);
    if (type < 0xa0) return this.array(type & 0xf, depth);
    if (type < 0xc0) return this.string(type & 0x1f);
    if (type >= 0xe0) return type - 0x100;
    switch (type) {
      case 0xc0: return null;
      case 0xc2: return false;
      case 0xc3: return true;
      case 0xc4: return this.binary(this.uint8());
      case 0xc5: return this.binary(this.uint16());
      case 0xc6: return this.binary(this.uint32());
      case 0xca: return finite(this.view.getFloat32(this.take(4)));
      case 0xcb: return finite(this.view.getFloat64(this.take(8)));
      case 0xcc: return this.uint8();
      case 0xcd: return this.uint16();
      case 0xce: return this.uint32();
      case 0xcf: return exact(this.view.getBigUint64(this.take(8)));
      case 0xd0: return this.view.getInt8(this.take(1));
      case 0xd1: return this.view.getInt16(this.take(2));
      case 0xd2: return this.view.getInt32(this.take(4));
      case 0xd3: return exact(this.view.getBigInt64(this.take(8)));
      case 0xd9: return this.string(this.uint8());
      case 0xda: return this.string(this.uint16());
      case 0xdb: return this.string(this.uint32());
      case 0xdc: return this.array(this.uint16(), depth);
      case 0xdd: return this.array(this.uint32(), depth);
      case 0xde: return this.map(this.uint16(), depth);
      case 0xdf: return this.map(this.uint32(), depth);
      default: throw new DecodeError(`MessagePack type 0x${type.toString(16)} is not of the protocol`);
    }
  }

  uint8() {
    return this.bytes[this.take(1)];
  }

  uint16() {
    return this.view.getUint16(this.take(2));
  }

  uint32() {
    return this.view.getUint32(this.take(4));
  }

  /** @param {number} length */
  binary(length) {
    const start = this.take(length);
    return this.bytes.subarray(start, start + length);
  }

  /** @param {number} length @returns {string} */
  string(length) {
    const start = this.take(length);
    if (length < 24) {
      const ascii = this.ascii(start, length);
      if (ascii !== null) return ascii;
    }
    try {
      return strict.decode(this.bytes.subarray(start, start + length));
    } catch {
      throw new DecodeError('a string is not UTF-8');
    }
  }

  /** A short string of ASCII, which most are; null for others. @param {number} start @param {number} length */
  ascii(start, length) {
    let text = '';
    for (let at = start; at < start + length; at += 1) {
      const byte = this.bytes[at];
      if (byte >= 0x80) return null;
      text += String.fromCharCode(byte);
    }
    return text;
  }

  /** @param {number} length @param {number} depth */
  array(length, depth) {
    this.fits(length);
    /** @type {unknown[]} */
    const values = [];
    for (let index = 0; index < length; index += 1) values.push(this.read(depth + 1));
    return values;
  }

  /** @param {number} length @param {number} depth */
  map(length, depth) {
    this.fits(length * 2);
    /** @type {Record<string, unknown>} */
    const members = {};
    for (let index = 0; index < length; index += 1) {
      const key = this.read(depth + 1);
      if (typeof key !== 'string') throw new DecodeError('a key is not a string');
      const value = this.read(depth + 1);
      if (key === '__proto__') Object.defineProperty(members, key, { value, enumerable: true, configurable: true });
      else members[key] = value;
    }
    return members;
  }

  /** Each value has a byte at least: a length that cannot be true is refused before anything is made of it. @param {number} values */
  fits(values) {
    if (values > this.bytes.length - this.at) throw new DecodeError('a message is cut off');
  }
}

/** @param {number} value */
function finite(value) {
  if (!Number.isFinite(value)) throw new DecodeError(`${value} is no number of the protocol`);
  return value;
}

/** @param {bigint} value @returns {number | bigint} */
function exact(value) {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}
