/** The frames of every release, which the Python side is tested with, too. Lost: a client that misreads its server. */

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { describe, test } from 'node:test';

import { JSON_CODEC, MSGPACK_CODEC } from '../src/codec.js';
import { errorOf, SpawnError } from '../src/errors.js';

const GOLDEN = new URL('../../../tests/protocol/golden/', import.meta.url);
const RELEASES = readdirSync(GOLDEN).filter((name) => name.endsWith('.json'));
const KINDS = ['requests', 'results', 'notifications', 'errors'];

/** @typedef {{release: string, kind: string, method: string, variant: string, json: string, packed: ArrayBuffer}} Frame */

/** @returns {Generator<Frame>} */
function* frames() {
  for (const release of RELEASES) {
    const texts = JSON.parse(readFileSync(new URL(release, GOLDEN), 'utf8'));
    const packed = JSON.parse(readFileSync(new URL(`msgpack/${release}`, GOLDEN), 'utf8'));
    for (const kind of KINDS) {
      const methods = kind === 'errors' ? { error: texts.errors } : texts[kind];
      for (const [method, variants] of Object.entries(methods)) {
        for (const variant of ['full', 'minimal']) {
          const there = kind === 'errors' ? packed.errors[''] : packed[kind]?.[method];
          if (there?.[variant] === undefined) continue;
          const buffer = new Uint8Array(Buffer.from(there[variant], 'base64')).buffer;
          yield { release, kind, method, variant, json: variants[variant], packed: buffer };
        }
      }
    }
  }
}

/** @param {any} value @returns {any} */
function withoutNulls(value) {
  if (typeof value !== 'object' || value instanceof Uint8Array || Array.isArray(value)) return value;
  const members = Object.entries(value).filter(([, member]) => member !== null);
  return Object.fromEntries(members.map(([key, member]) => [key, withoutNulls(member)]));
}

const ALL = [...frames()];

describe('golden frames', () => {
  test('there are some of each kind', () => {
    for (const kind of KINDS) assert.ok(ALL.some((frame) => frame.kind === kind), kind);
    assert.ok(ALL.length > 100, `${ALL.length} frames`);
  });

  for (const { release, kind, method, variant, json, packed } of ALL) {
    test(`${release} ${kind} ${method} ${variant}`, () => {
      const methodOf = () => (kind === 'results' ? method : undefined);
      const message = MSGPACK_CODEC.decode(packed, methodOf);
      // What a request leaves out in JSON may be null in MessagePack: it means the same.
      const said = kind === 'requests' && variant === 'minimal' ? withoutNulls(message) : message;
      assert.equal(JSON_CODEC.encode(said), json, 'what MessagePack says is what JSON says');
      assert.deepEqual(
        Buffer.from(/** @type {Uint8Array} */ (MSGPACK_CODEC.encode(message))),
        Buffer.from(packed),
        'MessagePack is written as it was',
      );
      if (kind !== 'requests') assert.deepEqual(JSON_CODEC.decode(json, methodOf), message, 'JSON says the same');
    });
  }

  test('an error is of the class of its kind', () => {
    const { json } = /** @type {Frame} */ (ALL.find((frame) => frame.kind === 'errors' && frame.variant === 'full'));
    const error = errorOf(JSON_CODEC.decode(json, () => undefined).error);
    assert.ok(error instanceof SpawnError);
    assert.deepEqual([error.code, error.kind, error.data?.path], [-32603, 'spawnNotFound', 'é']);
  });
});
