/** The client and a real server. Lost: programs that run in a page, or in Node, as they do elsewhere. */

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import {
  ConnectFailed,
  InvalidRequest,
  NotFound,
  OutputGap,
  ProcessExists,
  SessionAttached,
  SpawnError,
  StdinClosed,
  TransportDisconnected,
  UnknownProcess,
  connect,
} from '../src/index.js';
import { startServer, textOf } from './support.js';

/** @typedef {import('../src/index.js').ExecServerClient} ExecServerClient */
/** @typedef {import('../src/index.js').Process} Process */

/** @type {Awaited<ReturnType<typeof startServer>>} */
let server;
before(async () => {
  server = await startServer();
});
after(() => server.stop());

/** @param {Process} process @param {string} text */
async function printed(process, text) {
  let seen = '';
  for await (const event of process) {
    if (event.type === 'output') seen += textOf(event.data);
    if (seen.includes(text)) return seen;
  }
  throw new Error(`${JSON.stringify(text)} was never printed, only ${JSON.stringify(seen)}`);
}

for (const encoding of /** @type {const} */ (['msgpack', 'json'])) {
  describe(`a client that speaks ${encoding}`, () => {
    /** @type {ExecServerClient} */
    let client;
    before(async () => {
      client = await connect(server.url, { encoding });
    });
    after(() => client.close());

    test('runs a program to its end, both streams apart', async () => {
      const result = await client.run(['sh', '-c', 'cat; echo err >&2; exit 3'], { input: 'héllo\n' });
      assert.equal(textOf(result.stdout), 'héllo\n');
      assert.equal(textOf(result.stderr), 'err\n');
      assert.deepEqual([result.exitCode, result.signal, result.reason], [3, null, 'exited']);
    });

    test('every byte arrives as it is', async () => {
      const input = Uint8Array.from({ length: 1_000_000 }, (_, index) => (index * 7919) >> 3);
      const { stdout } = await client.run(['cat'], { input });
      assert.deepEqual(Buffer.from(stdout), Buffer.from(input));
    });

    test('events in order, and a position that says how far they were taken', async () => {
      const process = await client.start(['sh', '-c', 'printf abc; sleep 0.1; printf de']);
      const seqs = [];
      for await (const event of process) {
        if (event.type !== 'gap' && event.type !== 'failed') seqs.push(event.seq);
      }
      assert.deepEqual(seqs, seqs.map((_, index) => index + 1));
      assert.deepEqual(process.position, { seq: seqs.length, offset: 5 });
      assert.deepEqual(process.exitStatus, { exitCode: 0, signal: null, reason: 'exited' });
    });

    test('a terminal: its size, its new size, input, a signal', async () => {
      const process = await client.start(['sh', '-c', 'stty size; read x; stty size; echo "got $x"; exec sleep 100'], {
        tty: true,
        rows: 33,
        cols: 101,
      });
      await printed(process, '33 101');
      await process.resize(20, 50);
      await process.write('täxt\r');
      assert.match(await printed(process, 'got'), /20 50/);
      await process.signal('SIGTERM');
      assert.deepEqual(await process.wait(), { exitCode: 143, signal: 'SIGTERM', reason: 'signaled' });
    });

    test('errors are classes with code and kind', async () => {
      await assert.rejects(client.start(['/no/such/program']), (error) => {
        assert.ok(error instanceof SpawnError);
        assert.deepEqual([error.code, error.kind], [-32603, 'spawnNotFound']);
        return true;
      });
      const file = client.call('fs/readFile', { path: '/no/such/file' });
      await assert.rejects(file, (error) => error instanceof NotFound && error.kind === 'notFound');
      const process = await client.start(['cat'], { stdin: true });
      const again = client.call('process/start', { processId: process.id, argv: ['true'], cwd: '/', env: {}, tty: false });
      await assert.rejects(again, ProcessExists);
      await assert.rejects(client.attach('nobody'), UnknownProcess);
      await assert.rejects(client.attach(process.id), InvalidRequest);
      await process.closeStdin();
      await assert.rejects(process.write('more'), StdinClosed);
      assert.equal((await process.wait()).exitCode, 0);
    });

    test('a process on a sleeping reader is held, and nothing is lost', async () => {
      const bytes = 40_000_000;
      const process = await client.start(['head', '-c', String(bytes), '/dev/zero']);
      assert.equal(textOf((await client.run(['echo', 'beside it'])).stdout), 'beside it\n');
      let taken = 0;
      let largest = 0;
      for await (const event of process) {
        assert.notEqual(event.type, 'gap');
        if (event.type === 'output') taken += event.data.length;
        largest = Math.max(largest, process.waitingBytes);
      }
      assert.equal(taken, bytes);
      assert.ok(largest < 24 << 20, `${largest} bytes waited`);
    });

    test('files', async () => {
      const path = `/tmp/exec-server-client-${crypto.randomUUID()}`;
      const dataBase64 = Uint8Array.of(0, 255, 10);
      await client.call('fs/writeFile', { path, dataBase64 });
      assert.deepEqual(Buffer.from((await client.call('fs/readFile', { path })).dataBase64), Buffer.from(dataBase64));
      await client.call('fs/remove', { path });
    });
  });
}

describe('sessions', () => {
  test('a page that is opened again goes on where it was: nothing twice, nothing lost', async () => {
    const first = await connect(server.url);
    const process = await first.start(['sh', '-c', 'echo one; read x; echo two; read x; echo three'], { stdin: true });
    assert.equal(await printed(process, 'one\n'), 'one\n');
    first.close();
    const second = await connect(server.url, { resumeSessionId: first.sessionId });
    const again = await second.attach(process.id, { after: process.position });
    await again.write('\n\n');
    assert.equal(await printed(again, 'three\n'), 'two\nthree\n');
    assert.equal((await again.wait()).exitCode, 0);
    second.close();
  });

  test('without a position comes what is retained, and before it how much is gone', async () => {
    const client = await connect(server.url);
    const flood = await client.start(['head', '-c', '3000000', '/dev/zero']);
    client.close();
    const second = await connect(server.url, { resumeSessionId: client.sessionId });
    await second.call('process/wait', { processId: flood.id });
    const again = await second.attach(flood.id);
    let gone = 0;
    let came = 0;
    for await (const event of again) {
      if (event.type === 'gap') gone += event.bytes ?? NaN;
      if (event.type === 'output') came += event.data.length;
    }
    assert.equal(gone + came, 3_000_000);
    assert.ok(gone > 0);
    second.close();
  });

  test('a stream that has a gap says so, and goes no further', async () => {
    const client = await connect(server.url);
    const flood = await client.start(['head', '-c', '3000000', '/dev/zero']);
    client.close();
    const second = await connect(server.url, { resumeSessionId: client.sessionId });
    await second.call('process/wait', { processId: flood.id });
    const again = await second.attach(flood.id);
    await assert.rejects(new Response(/** @type {any} */ (again.stdout)).arrayBuffer(), (error) => {
      return error instanceof OutputGap && error.bytes !== null && error.bytes > 0;
    });
    second.close();
  });

  test('a session that another connection holds is refused, and so is an unknown one', async () => {
    const client = await connect(server.url);
    await assert.rejects(connect(server.url, { resumeSessionId: client.sessionId }), SessionAttached);
    client.close();
    await assert.rejects(connect(server.url, { resumeSessionId: crypto.randomUUID() }), InvalidRequest);
  });

  test('a server that is not there is told at once', async () => {
    await assert.rejects(connect('ws://127.0.0.1:1/secret?token=x'), (error) => {
      return error instanceof ConnectFailed && !error.message.includes('token');
    });
  });

  test('what is asked of a closed client fails, and its processes are told to be lost', async () => {
    const client = await connect(server.url);
    const process = await client.start(['sleep', '100']);
    const events = process.events();
    client.close();
    assert.equal((await events.next()).value?.type, 'failed');
    await assert.rejects(client.list(), TransportDisconnected);
    await assert.rejects(process.wait(), TransportDisconnected);
  });
});

describe('watching', () => {
  test('with an observeId one sees everything and changes nothing', async () => {
    const [owner, watcher] = await Promise.all([connect(server.url), connect(server.url)]);
    const process = await owner.start(['cat'], { tty: true });
    const watched = await watcher.watch(process.id, { observeId: owner.observeId });
    await process.write('hello\r');
    assert.match(await printed(watched, 'hello'), /hello/);
    await Promise.all(
      [
        watched.write('x'),
        watched.resize(1, 1),
        watched.signal('SIGKILL'),
        watched.kill(),
        watched.closeStdin(),
      ].map((change) => assert.rejects(change, (error) => error instanceof InvalidRequest && error.kind === 'notOwner')),
    );
    await assert.rejects(watcher.call('process/list', { sessionId: owner.observeId }), InvalidRequest);
    assert.equal(process.exitStatus, null);
    await process.kill();
    assert.equal((await watched.wait()).signal, 'SIGKILL');
    owner.close();
    watcher.close();
  });

  test('with the sessionId one types, too', async () => {
    const [owner, other] = await Promise.all([connect(server.url), connect(server.url)]);
    const process = await owner.start(['sh', '-c', 'read x; echo "got $x"'], { tty: true });
    const watched = await other.watch(process.id, { sessionId: owner.sessionId });
    assert.deepEqual(watched.argv, process.argv);
    await watched.write('this\r');
    await printed(process, 'got this');
    assert.equal((await watched.wait()).exitCode, 0);
    owner.close();
    other.close();
  });

  test('one that comes late to a flood is told how much is gone; one that reads slowly, too', async () => {
    const [owner, watcher] = await Promise.all([connect(server.url), connect(server.url)]);
    const bytes = 60_000_000;
    const flood = await owner.start(['head', '-c', String(bytes), '/dev/zero']);
    const watched = await watcher.watch(flood.id, { observeId: owner.observeId });
    const own = drain(flood);
    await flood.wait();
    assert.equal(await own, bytes);
    assert.equal(await drain(watched), bytes);
    owner.close();
    watcher.close();
  });
});

/** Take everything; bytes of output, and of gaps. @param {Process} process */
async function drain(process) {
  let bytes = 0;
  for await (const event of process) {
    if (event.type === 'output') bytes += event.data.length;
    if (event.type === 'gap') bytes += event.bytes ?? NaN;
    assert.notEqual(event.type, 'failed');
  }
  return bytes;
}
