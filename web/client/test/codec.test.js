/** What is encoded is decoded to the same; what is no message is told, not guessed. Lost: a page that shows nonsense. */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { decodeBase64, encodeBase64 } from '../src/base64.js';
import { JSON_CODEC, MSGPACK_CODEC } from '../src/codec.js';
import { DecodeError } from '../src/errors.js';
import { decodeMsgpack, encodeMsgpack } from '../src/msgpack.js';
import { random } from './support.js';

const EDGES = [0, 1, 31, 32, 127, 128, 255, 256, 65535, 65536, 2 ** 32 - 1, 2 ** 32, Number.MAX_SAFE_INTEGER].flatMap(
  (edge) => [edge, -edge - 1],
);

/** @param {() => number} next @param {number} depth @returns {unknown} */
function anything(next, depth) {
  const kind = Math.floor(next() * (depth > 3 ? 6 : 8));
  const size = Math.floor(next() ** 4 * 300);
  switch (kind) {
    case 0: return null;
    case 1: return next() < 0.5;
    case 2: return EDGES.filter(Number.isSafeInteger)[Math.floor(next() * 24)];
    case 3: return next() * 1e9;
    case 4: return 'aé日😀'.repeat(size).slice(0, Math.floor(size / 3) * 2);
    case 5: return Uint8Array.from({ length: size }, () => next() * 256);
    case 6: return Array.from({ length: size % 40 }, () => anything(next, depth + 1));
    default: return Object.fromEntries(
      Array.from({ length: size % 40 }, (_, index) => [`k${index}`, anything(next, depth + 1)]),
    );
  }
}

/** Half a surrogate pair is no text of the protocol. @param {unknown} value @returns {any} */
function wellFormed(value) {
  if (typeof value === 'string') return value.toWellFormed();
  if (Array.isArray(value)) return value.map(wellFormed);
  if (value === null || typeof value !== 'object' || value instanceof Uint8Array) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, wellFormed(member)]));
}

describe('MessagePack', () => {
  test('what is written is read again', () => {
    const next = random(1);
    for (let example = 0; example < 3000; example += 1) {
      const value = wellFormed(anything(next, 0));
      assert.deepEqual(decodeMsgpack(encodeMsgpack(value)), value);
    }
  });

  test('integers at the edges of their forms, and beyond what a number holds', () => {
    for (const edge of EDGES.filter(Number.isSafeInteger)) assert.equal(decodeMsgpack(encodeMsgpack(edge)), edge);
    for (const big of [2n ** 53n, 2n ** 64n - 1n, -(2n ** 63n)]) assert.equal(decodeMsgpack(encodeMsgpack(big)), big);
    assert.throws(() => encodeMsgpack(2n ** 64n), TypeError);
    assert.throws(() => encodeMsgpack(Number.NaN), TypeError);
  });

  test('every cut of a message, and what stands behind one, is refused', () => {
    const whole = encodeMsgpack({ a: [1, 'two', new Uint8Array(300), -70000], b: { c: 1.5, d: 'x'.repeat(300) } });
    for (let length = 0; length < whole.length; length += 1) {
      assert.throws(() => decodeMsgpack(whole.subarray(0, length)), DecodeError, `${length} of ${whole.length} bytes`);
    }
    assert.throws(() => decodeMsgpack(Uint8Array.of(...whole, 0xc0)), DecodeError);
  });

  test('bytes that nobody wrote are refused or read, and nothing else', () => {
    const next = random(2);
    for (let example = 0; example < 20_000; example += 1) {
      const bytes = Uint8Array.from({ length: 1 + next() * 40 }, () => next() * 256);
      try {
        decodeMsgpack(bytes);
      } catch (error) {
        assert.ok(error instanceof DecodeError, String(error));
      }
    }
  });

  test('a length that cannot be true costs no memory, nor depth the stack', () => {
    for (const head of [[0xdd, 255, 255, 255, 255], [0xdf, 255, 255, 255, 255], [0xc6, 255, 255, 255, 255]]) {
      assert.throws(() => decodeMsgpack(Uint8Array.from(head)), DecodeError);
    }
    assert.throws(() => decodeMsgpack(new Uint8Array(100_000).fill(0x91)), DecodeError);
  });

  test('a key named __proto__ is a key like others', () => {
    const value = decodeMsgpack(Uint8Array.of(0x81, 0xa9, ...Buffer.from('__proto__'), 0x81, 0xa1, 0x78, 1));
    assert.equal(Object.getPrototypeOf(value), Object.prototype);
    assert.deepEqual(Object.keys(/** @type {object} */ (value)), ['__proto__']);
  });

  test('extension types, keys that are no strings, and bad UTF-8 are refused', () => {
    for (const bytes of [[0xd4, 1, 0], [0xc1], [0x81, 1, 1], [0xa1, 0xff], [0xcb, 0x7f, 0xf0, 0, 0, 0, 0, 0, 0]]) {
      assert.throws(() => decodeMsgpack(Uint8Array.from(bytes)), DecodeError, bytes.join(' '));
    }
  });
});

describe('base64', () => {
  test('what is written is read again, by whatever the engine has', () => {
    const next = random(3);
    for (const length of [0, 1, 2, 3, 4, 255, 0x8000, 0x8001, 100_000]) {
      const bytes = Uint8Array.from({ length }, () => next() * 256);
      assert.equal(encodeBase64(bytes), Buffer.from(bytes).toString('base64'));
      assert.deepEqual(decodeBase64(encodeBase64(bytes)), bytes);
    }
    assert.throws(() => decodeBase64('a?b='), DecodeError);
  });
});

describe('messages', () => {
  test('what is no object is no message', () => {
    for (const text of ['', '[]', 'null', '7', '"text"', '{"id":1', '\u0000']) {
      assert.throws(() => JSON_CODEC.decode(text, () => undefined), DecodeError, text);
    }
    assert.throws(() => MSGPACK_CODEC.decode(new Uint8Array([0x90]).buffer, () => undefined), DecodeError);
    assert.throws(() => MSGPACK_CODEC.decode('{}', () => undefined), DecodeError);
    assert.throws(() => JSON_CODEC.decode(new ArrayBuffer(1), () => undefined), DecodeError);
  });

  test('an integer that no number holds stays exact in JSON', () => {
    const message = JSON_CODEC.decode('{"id":1,"result":{"size":18446744073709551615,"other":1700000000123}}', () => 'x');
    assert.deepEqual(message.result, { size: 2n ** 64n - 1n, other: 1700000000123 });
    assert.equal(JSON_CODEC.encode(message), '{"id":1,"result":{"size":18446744073709551615,"other":1700000000123}}');
  });
});
