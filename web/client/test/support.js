/** A real server, a proxy that cuts, and random numbers that can be had again. */

import { spawn } from 'node:child_process';
import { createServer, connect as connectTcp } from 'node:net';
import { createInterface } from 'node:readline';

const PROGRAM = (process.env.EXEC_SERVER ?? '').split(' ');

/**
 * `exec-server`, listening on a port of its own. `EXEC_SERVER` names the program.
 *
 * @param {string[]} [options]
 */
export async function startServer(options = []) {
  if (PROGRAM[0] === '') throw new Error('EXEC_SERVER has to name the program exec-server; `make test-web` does');
  const [program, ...args] = PROGRAM;
  const child = spawn(program, [...args, '--listen', 'ws://127.0.0.1:0', ...options], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const lines = createInterface({ input: child.stdout });
  const url = await new Promise((resolve, reject) => {
    lines.once('line', resolve);
    child.once('exit', (code) => reject(new Error(`exec-server ended with ${code}`)));
    child.once('error', reject);
  });
  return {
    url: /** @type {string} */ (url),
    async stop() {
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGTERM');
      await ended;
    },
  };
}

/** Between a client and the server at `url`; see `startProxy`. */
export class CuttingProxy {
  connections = 0;
  cuts = 0;
  /** Cut new connections at once. */
  refuse = false;
  /** Throw away what clients send. */
  loseRequests = false;
  /** Throw away what the server sends. */
  loseAnswers = false;
  url = '';
  /** @type {Set<import('node:net').Socket>} */
  #sockets = new Set();
  #server;

  /** @param {string} url @param {Iterator<number>} [budgets] */
  constructor(url, budgets) {
    this.#server = createServer((near) => this.#accept(near, Number(new URL(url).port), budgets?.next().value));
  }

  async open() {
    await new Promise((resolve) => this.#server.listen(0, '127.0.0.1', () => resolve(undefined)));
    this.url = `ws://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (this.#server.address()).port}`;
  }

  /** Cut every connection that there is now. */
  cut() {
    for (const socket of this.#sockets) socket.destroy();
  }

  async stop() {
    this.cut();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** @param {import('node:net').Socket} near @param {number} port @param {number} [budget] */
  #accept(near, port, budget = Infinity) {
    if (this.refuse) {
      near.destroy();
      return;
    }
    this.connections += 1;
    const far = connectTcp(port, '127.0.0.1');
    const end = () => {
      near.destroy();
      far.destroy();
    };
    const forward = (/** @type {import('node:net').Socket} */ from, /** @type {import('node:net').Socket} */ to) => {
      this.#sockets.add(from);
      from.on('error', () => {});
      from.on('close', () => {
        this.#sockets.delete(from);
        end();
      });
      from.on('data', (data) => {
        if (from.destroyed || to.destroyed || (from === near ? this.loseRequests : this.loseAnswers)) return;
        const passed = data.subarray(0, budget);
        budget -= passed.length;
        if (!to.write(passed)) {
          from.pause();
          to.once('drain', () => from.resume());
        }
        if (passed.length < data.length) {
          this.cuts += 1;
          end();
        }
      });
    };
    forward(near, far);
    forward(far, near);
  }
}

/**
 * A proxy in front of the server at `url`. Each connection is cut after as many bytes, both directions together, as the
 * next of `budgets` says; when there is none left, not at all.
 *
 * @param {string} url
 * @param {Iterator<number>} [budgets]
 */
export async function startProxy(url, budgets) {
  const proxy = new CuttingProxy(url, budgets);
  await proxy.open();
  return proxy;
}

/** Numbers from 0 to below 1 that are the same for the same seed (mulberry32). @param {number} seed */
export function random(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** @param {Uint8Array} bytes */
export function textOf(bytes) {
  return new TextDecoder().decode(bytes);
}

/** @param {Uint8Array[]} parts */
export function join(parts) {
  return new Uint8Array(Buffer.concat(parts));
}

/** The next event of this name. @param {EventTarget} target @param {string} name @returns {Promise<any>} */
export function next(target, name) {
  return new Promise((resolve) => {
    target.addEventListener(name, (event) => resolve(/** @type {CustomEvent} */ (event).detail), { once: true });
  });
}
