/** Connections that break anywhere. Lost: output that comes twice or not at all, input that is typed twice. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, describe, test } from 'node:test';

import { TransportDisconnected, connect } from '../src/index.js';
import { next, random, startProxy, startServer, textOf } from './support.js';

/** @type {Awaited<ReturnType<typeof startServer>>} */
let server;
before(async () => {
  server = await startServer(['--retained-output', String(64 << 20)]);
});
after(() => server.stop());

/** @param {() => number} next @param {number} from @param {number} to @param {number} count */
function* between(next, from, to, count) {
  for (let index = 0; index < count; index += 1) yield Math.floor(from + next() * (to - from));
}

/** @param {string | Uint8Array} bytes */
function digest(bytes) {
  return createHash('sha256').update(bytes).digest('hex');
}

describe('output over cuts', { concurrency: 5 }, () => {
  for (const encoding of /** @type {const} */ (['msgpack', 'json'])) {
    for (let seed = 1; seed <= 10; seed += 1) {
      test(`each byte once, in order: ${encoding}, seed ${seed}`, async () => {
        const proxy = await startProxy(server.url, between(random(seed), 2_000, 300_000, 8));
        const client = await connectThrough(proxy, { encoding });
        const process = await client.start(['sh', '-c', 'seq 1 150000; sleep 0.1; echo end; exit 7']);
        const hash = createHash('sha256');
        let offset = 0;
        for await (const event of process) {
          assert.ok(event.type !== 'gap' && event.type !== 'failed', JSON.stringify(event));
          if (event.type !== 'output') continue;
          assert.equal(event.offset, offset);
          offset += event.data.length;
          hash.update(event.data);
        }
        const whole = Array.from({ length: 150_000 }, (_, index) => `${index + 1}\n`).join('');
        assert.equal(hash.digest('hex'), digest(`${whole}end\n`));
        assert.deepEqual(await process.wait(), { exitCode: 7, signal: null, reason: 'exited' });
        assert.ok(proxy.cuts > 0, 'nothing was cut');
        client.close();
        await proxy.stop();
      });
    }
  }
});

describe('input over cuts', { concurrency: 5 }, () => {
  for (let seed = 1; seed <= 10; seed += 1) {
    test(`each write arrives once, in order: seed ${seed}`, async () => {
      const proxy = await startProxy(server.url, between(random(100 + seed), 2_000, 400_000, 8));
      const client = await connectThrough(proxy);
      const process = await client.start(['sha256sum'], { stdin: true });
      const parts = Array.from({ length: 40 }, (_, index) => `${index} `.repeat(9_000));
      const writes = parts.map((part) => process.write(part));
      await Promise.all(writes);
      await process.closeStdin();
      const output = textOf(new Uint8Array(await new Response(/** @type {any} */ (process.stdout)).arrayBuffer()));
      assert.equal(output.split(' ')[0], digest(parts.join('')));
      assert.ok(proxy.cuts > 0, 'nothing was cut');
      client.close();
      await proxy.stop();
    });
  }
});

describe('a cut', () => {
  test('is told, and so is that it is over; typing goes on behind its back', async () => {
    const proxy = await startProxy(server.url);
    const client = await connect(proxy.url);
    const process = await client.start(['cat'], { stdin: true });
    const disconnected = next(client, 'disconnected');
    const reconnected = next(client, 'reconnected');
    proxy.cut();
    assert.match((await disconnected).reason, /cut/);
    assert.equal(client.connected, false);
    const writing = process.write('typed while there was no connection\n');
    await reconnected;
    await writing;
    assert.equal(client.connected, true);
    for await (const event of process) {
      if (event.type === 'output' && textOf(event.data).includes('typed')) break;
    }
    await process.kill();
    client.close();
    await proxy.stop();
  });

  test('an exit that happens meanwhile is known afterwards, and a watched process is watched again', async () => {
    const proxy = await startProxy(server.url);
    const [owner, watcher, other] = await Promise.all([
      connect(proxy.url),
      connect(proxy.url),
      connect(server.url),
    ]);
    const process = await owner.start(['sh', '-c', 'echo before; read x; echo after; exit 5'], { stdin: true });
    const watched = await watcher.watch(process.id, { observeId: owner.observeId });
    const text = collect(watched);
    const own = collect(process);
    proxy.refuse = true;
    const cuts = Promise.all([next(owner, 'disconnected'), next(watcher, 'disconnected')]);
    proxy.cut();
    await cuts;
    const { sessionId } = owner;
    await other.call('process/write', { sessionId, processId: process.id, chunk: new TextEncoder().encode('\n') });
    assert.equal((await other.call('process/wait', { sessionId, processId: process.id })).exitCode, 5);
    proxy.refuse = false;
    assert.equal(await own, 'before\nafter\n');
    assert.equal(await text, 'before\nafter\n');
    assert.equal((await process.wait()).exitCode, 5);
    assert.equal((await watched.wait()).exitCode, 5);
    for (const client of [owner, watcher, other]) client.close();
    await proxy.stop();
  });

  test('a start that got lost is told not to run, and one that arrived is found again', async () => {
    const proxy = await startProxy(server.url);
    const [client, other] = await Promise.all([connect(proxy.url), connect(server.url)]);
    proxy.loseRequests = true;
    const lost = client.start(['sleep', '100'], { processId: 'lost' });
    proxy.cut();
    proxy.loseRequests = false;
    await assert.rejects(lost, TransportDisconnected);
    assert.deepEqual(await client.list(), []);

    proxy.loseAnswers = true;
    const found = client.start(['sh', '-c', 'echo here; read x'], { processId: 'found', stdin: true });
    const { sessionId } = client;
    while ((await other.call('process/list', { sessionId })).processes.length === 0);
    proxy.loseAnswers = false;
    proxy.cut();
    const process = await found;
    await process.closeStdin();
    assert.equal(await collect(process), 'here\n');
    other.close();
    client.close();
    await proxy.stop();
  });

  test('a session that cannot be resumed is lost: what waits fails, with the reason', async () => {
    const proxy = await startProxy(server.url);
    const client = await connect(proxy.url, { reconnectMs: 300, sessionTtlMs: 0 });
    const process = await client.start(['sleep', '100']);
    const lost = next(client, 'lost');
    proxy.cut();
    assert.match((await lost).reason, /unknown session|could not be resumed/);
    await assert.rejects(process.wait(), TransportDisconnected);
    await assert.rejects(client.list(), TransportDisconnected);
    await proxy.stop();
  });

  test('`hurry` does not wait for the next attempt', async () => {
    const proxy = await startProxy(server.url);
    const client = await connect(proxy.url, { reconnectMs: Infinity });
    proxy.refuse = true;
    const disconnected = next(client, 'disconnected');
    proxy.cut();
    await disconnected;
    proxy.refuse = false;
    const reconnected = next(client, 'reconnected');
    client.hurry();
    await reconnected;
    client.close();
    await proxy.stop();
  });
});

/** The first connection may be cut as well, before there is a session. @param {{url: string}} proxy @param {object} [options] */
async function connectThrough(proxy, options) {
  for (;;) {
    try {
      return await connect(proxy.url, options);
    } catch (error) {
      assert.ok(error instanceof Error && error.name === 'ConnectFailed', String(error));
    }
  }
}

/** @param {import('../src/index.js').Process} process */
async function collect(process) {
  let text = '';
  for await (const event of process) {
    assert.ok(event.type !== 'gap' && event.type !== 'failed', JSON.stringify(event));
    if (event.type === 'output') text += textOf(event.data);
  }
  return text;
}
