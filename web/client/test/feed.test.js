/** Which events have come, judged against a model of a server that forgets. Lost: output that comes twice, or never. */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { Feed } from '../src/feed.js';
import { random } from './support.js';

/** @typedef {import('../src/feed.js').Kind} Kind */

/** A process as a server sees it: each event has the next number, and the oldest output goes. */
class Model {
  lastSeq = 0;
  offset = 0;
  evicted = 0;
  exited = false;
  closed = false;
  /** @type {any[]} */
  chunks = [];
  /** @type {{kind: Kind, params: any}[]} */
  told = [];

  /** @param {() => number} next @param {number} retained bytes */
  constructor(next, retained) {
    this.next = next;
    this.retained = retained;
  }

  step() {
    if (this.closed) return;
    this.lastSeq += 1;
    const seq = this.lastSeq;
    if (this.next() < 0.85) this.print(seq);
    else if (!this.exited) {
      this.exited = true;
      const exit = { exitCode: 3, signal: null, reason: 'exited', sandboxDenied: false };
      this.told.push({ kind: 'process/exited', params: { seq, ...exit } });
    } else {
      this.closed = true;
      this.told.push({ kind: 'process/closed', params: { seq } });
    }
  }

  /** @param {number} seq */
  print(seq) {
    const chunk = new Uint8Array(1 + this.next() * 9).map((_, index) => (this.offset + index) % 251);
    const params = { seq, stream: 'stdout', offset: this.offset, chunk };
    this.offset += chunk.length;
    this.chunks.push(params);
    this.told.push({ kind: 'process/output', params });
    while (this.offset - this.evicted > this.retained) {
      this.evicted += this.chunks.shift().chunk.length;
    }
  }

  /** @param {number} afterSeq @param {number} most chunks @returns {any} */
  read(afterSeq, most) {
    const chunks = this.chunks.filter(({ seq }) => seq > afterSeq);
    const some = chunks.slice(0, most);
    const nextSeq = some.length < chunks.length ? some[some.length - 1].seq + 1 : this.lastSeq + 1;
    const exit = this.exited ? { exitCode: 3, reason: 'exited' } : { exitCode: null, reason: null };
    const { exited, closed, evicted: evictedBytes } = this;
    return { chunks: some, nextSeq, exited, closed, ...exit, signal: null, sandboxDenied: false, failure: null, evictedBytes };
  }
}

/** @param {number} seed @param {number} retained */
function play(seed, retained) {
  const next = random(seed);
  const model = new Model(next, retained);
  const feed = new Feed('p');
  /** @type {any[]} */
  const events = [];
  let connected = true;
  let answer = null;
  while (!feed.closed) {
    const dice = next();
    if (dice < 0.5) model.step();
    else if (dice < 0.55) {
      connected = !connected;
      model.told = []; // nothing is kept for a connection that is gone
      if (!connected) {
        feed.miss();
        answer = null;
      }
    } else if (!connected) {
      model.told = [];
    } else if (dice < 0.8) {
      const notification = model.told.shift();
      if (notification) events.push(...feed.notified(notification.kind, notification.params));
    } else if (answer !== null) {
      events.push(...feed.read(answer));
      answer = null;
    } else if (feed.behind) {
      answer = model.read(feed.lastSeq, 1 + Math.floor(next() * 3)); // an answer that may be old when it is taken
    }
  }
  return { events, model, feed };
}

describe('feed', () => {
  test('each byte comes once, in order, or is in a gap of its size; the exit and the close come once', () => {
    for (let seed = 0; seed < 3000; seed += 1) {
      const { events, model, feed } = play(seed, seed % 3 === 0 ? Infinity : 20);
      let offset = 0;
      for (const event of events) {
        if (event.type === 'gap') offset += event.bytes;
        if (event.type !== 'output') continue;
        assert.equal(event.offset, offset, `seed ${seed}`);
        assert.equal(event.data[0], offset % 251, `seed ${seed}`);
        offset += event.data.length;
      }
      assert.equal(offset, model.offset, `seed ${seed}: every byte is accounted for`);
      const count = (/** @type {string} */ type) => events.filter((event) => event.type === type).length;
      assert.deepEqual([count('exited'), count('closed')], [1, 1], `seed ${seed}`);
      assert.equal(events.at(-1).type, 'closed', `seed ${seed}`);
      assert.equal(feed.behind, false, `seed ${seed}: it would be read for ever`);
      if (seed % 3 === 0) assert.equal(count('gap'), 0, `seed ${seed}: nothing was evicted`);
    }
  });

  test('a gap that is told is as large as it says, and one that does not fit is read instead', () => {
    const feed = new Feed('p', { seq: 4, offset: 100 });
    assert.deepEqual(feed.notified('process/gap', { fromSeq: 5, toSeq: 9, bytes: 50 }), [
      { type: 'gap', processId: 'p', fromSeq: 5, toSeq: 9, bytes: 50 },
    ]);
    assert.deepEqual([feed.lastSeq, feed.endOffset, feed.behind], [9, 150, false]);
    assert.deepEqual(feed.notified('process/gap', { fromSeq: 3, toSeq: 12, bytes: 80 }), []);
    assert.equal(feed.behind, true);
  });

  test('a server without offsets: what is missing has no size', () => {
    const feed = new Feed('p');
    feed.miss();
    const chunks = [{ seq: 7, stream: /** @type {const} */ ('pty'), chunk: Uint8Array.of(1) }];
    const result = { chunks, nextSeq: 8, exited: false, exitCode: null, closed: false, failure: null, sandboxDenied: false };
    assert.deepEqual(
      feed.read(result).map((event) => [event.type, event.type === 'gap' ? event.bytes : 0]),
      [['gap', null], ['output', 0]],
    );
  });
});
