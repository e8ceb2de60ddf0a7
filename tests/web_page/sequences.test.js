/** Where a stream for a terminal may be cut. Lost: letters of a torn sequence on the screen after a reload. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { incompleteBytes } from '../../web/page/sequences.js';

const WHOLE = ['plain', '\x1b[31mred\x1b[0m', '\x1b]0;title\x07after', '\x1b]8;;http://x\x1b\\link', 'é日😀', '\x1b(B', '\x1bM', '\x1bPq\x1b\\', ''];
const TORN = ['\x1b', '\x1b[', '\x1b[38;5;1', '\x1b]0;a title', '\x1b]0;a title\x1b', '\x1bP1$q', '\x1b(', '\x1b[?25'];

/** @param {string} text */
const bytes = (text) => new TextEncoder().encode(text);

test('what is whole can be cut behind it', () => {
  for (const text of WHOLE) assert.equal(incompleteBytes(bytes(`before${text}`)), 0, JSON.stringify(text));
});

test('what is torn stays together', () => {
  for (const before of WHOLE) {
    for (const torn of TORN) assert.equal(incompleteBytes(bytes(before + torn)), torn.length, JSON.stringify(before + torn));
  }
});

test('a character that is torn stays together, wherever', () => {
  for (const character of ['é', '日', '😀']) {
    const encoded = bytes(character);
    for (let length = 1; length < encoded.length; length += 1) {
      assert.equal(incompleteBytes(Uint8Array.of(...bytes('x\x1b[0m'), ...encoded.subarray(0, length))), length, character);
    }
  }
});
