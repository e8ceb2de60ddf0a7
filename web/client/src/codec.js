/**
 * Messages to what a WebSocket carries and back, in JSON and in MessagePack. Bytes are Uint8Arrays here, in both.
 *
 * Integers that a JavaScript number cannot hold exactly are BigInts in both directions; all others are numbers.
 *
 * @module
 */

import { decodeBase64, encodeBase64 } from './base64.js';
import { DecodeError } from './errors.js';
import { decodeMsgpack, encodeMsgpack } from './msgpack.js';

/** @typedef {Record<string, any>} Message One object: a request, a notification, a result or an error. */

/**
 * @typedef {object} Codec
 * @property {string | null} subprotocol what a WebSocket is asked for
 * @property {(message: Message) => string | Uint8Array<ArrayBuffer>} encode
 * @property {(data: string | ArrayBuffer, methodOf: (id: unknown) => string | undefined) => Message} decode `methodOf`
 *   tells what an answer answers, by its id; throws DecodeError for what is no message
 */

/** Members of results and of params of notifications that are bytes: base64 in JSON (docs/protocol.md, "Types"). */
/** @type {Record<string, readonly string[]>} */
const BYTES = {
  'process/output': ['chunk'],
  'process/snapshot': ['stdout', 'stderr', 'terminal'],
  'fs/readFile': ['dataBase64'],
  'fs/readBlock': ['chunk'],
  'http/request': ['bodyBase64'],
  'http/request/bodyDelta': ['deltaBase64'],
};

/** An integer of so many digits may be more than a number can hold. */
const LONG_NUMBER = /[0-9]{16}/;

/** Newer than the type library. @type {any} */
const json = JSON;

/** @type {Codec} */
export const JSON_CODEC = {
  subprotocol: null,
  encode: (message) => JSON.stringify(message, plain),
  decode(data, methodOf) {
    if (typeof data !== 'string') throw new DecodeError('a binary message where text was agreed on');
    const message = object(parse(data));
    if ('result' in message) decodeMembers(methodOf(message.id), message.result);
    else if ('method' in message) decodeMembers(message.method, message.params);
    return message;
  },
};

/** @type {Codec} */
export const MSGPACK_CODEC = {
  subprotocol: 'exec-server.msgpack',
  encode: (message) => encodeMsgpack(message),
  decode(data) {
    if (typeof data === 'string') throw new DecodeError('a text message where binary ones were agreed on');
    return object(decodeMsgpack(new Uint8Array(data)));
  },
};

/** @param {string} _key @param {unknown} value */
function plain(_key, value) {
  if (value instanceof Uint8Array) return encodeBase64(value);
  if (typeof value !== 'bigint') return value;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : json.rawJSON(String(value));
}

/** @param {string} text @returns {unknown} */
function parse(text) {
  try {
    return LONG_NUMBER.test(text) ? json.parse(text, exact) : JSON.parse(text);
  } catch (error) {
    throw new DecodeError(`no JSON: ${/** @type {Error} */ (error).message}`);
  }
}

/** @param {string} _key @param {unknown} value @param {{source?: string}} [context] */
function exact(_key, value, context) {
  if (typeof value !== 'number' || Number.isSafeInteger(value)) return value;
  return /^-?[0-9]+$/.test(context?.source ?? '') ? BigInt(/** @type {string} */ (context?.source)) : value;
}

/** @param {unknown} value @returns {Message} */
function object(value) {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new DecodeError('a message is not an object');
  }
  return value;
}

/** @param {string | undefined} method @param {any} members */
function decodeMembers(method, members) {
  if (typeof method !== 'string' || typeof members !== 'object' || members === null) return;
  if (method === 'process/read') {
    for (const chunk of members.chunks ?? []) chunk.chunk = decodeBase64(chunk.chunk);
  } else if (Object.hasOwn(BYTES, method)) {
    for (const name of BYTES[method]) {
      if (typeof members[name] === 'string') members[name] = decodeBase64(members[name]);
    }
  }
}
