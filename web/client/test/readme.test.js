/** Examples of the README, run as they stand. Lost: the first minute of whoever tries this. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';

import { startServer } from './support.js';

const README = readFileSync(new URL('../README.md', import.meta.url), 'utf8');
const INDEX = new URL('../src/index.js', import.meta.url).href;

describe('the README', () => {
  /** @type {Awaited<ReturnType<typeof startServer>>} */
  let server;
  before(async () => {
    server = await startServer();
  });
  after(() => server.stop());

  const examples = [...README.matchAll(/```js\n(.*?)```/gs)].map(([, code]) => code);
  const printed = [/^0 Linux/, /1 pty [0-9]+\n(.*\n)*.*exitCode: 0, signal: null, reason: 'exited'/];
  assert.equal(examples.length, printed.length);
  for (const [index, code] of examples.entries()) {
    test(`example ${index + 1}`, async (context) => {
      /** @type {unknown[][]} */
      const lines = [];
      context.mock.method(console, 'log', (/** @type {unknown[]} */ ...args) => lines.push(args));
      const today = code.replace("'exec-server-client'", `'${INDEX}'`).replace('ws://127.0.0.1:8765', server.url);
      await import(`data:text/javascript,${encodeURIComponent(today)}`);
      const { inspect } = await import('node:util');
      const text = lines.map((args) => args.map((arg) => (typeof arg === 'string' ? arg : inspect(arg))).join(' ')).join('\n');
      assert.match(text, printed[index]);
    });
  }
});
