/**
 * One session on a server, over any number of connections: shakes hands, resumes after a cut, sends again.
 *
 *     connecting ──► attached ──cut──► reconnecting ──► attached …
 *                       │                  │
 *                     close                └── unknown session, refused, or too late ──► lost
 *
 * @module
 */

import { Calls } from './calls.js';
import { ConnectFailed, SessionAttached, TransportDisconnected, errorOf } from './errors.js';
import { openLink } from './link.js';

/** @typedef {import('./calls.js').Call} Call */
/** @typedef {import('./codec.js').Codec} Codec */
/** @typedef {import('./codec.js').Message} Message */
/** @typedef {import('./link.js').Link} Link */
/** @typedef {import('./protocol.js').InitializeParams} InitializeParams */
/** @typedef {import('./protocol.js').InitializeResult} InitializeResult */

/**
 * Hears what happens in a session.
 *
 * @typedef {object} Listener
 * @property {(method: string, params: any) => void} notified the server tells something
 * @property {(reason: string) => void} cut the connection is gone
 * @property {() => void} resumed there is a connection again
 * @property {(reason: string) => void} lost there will be none
 */

/**
 * @typedef {object} SessionOptions
 * @property {string} url
 * @property {Codec} codec
 * @property {string | undefined} token
 * @property {InitializeParams} initialize
 * @property {number} connectMs how long a connection and its handshake may take
 * @property {number} reconnectMs how long a session is tried to be resumed after a cut
 */

const FIRST_DELAY_MS = 100;
const LONGEST_DELAY_MS = 5_000;

/** A session and its requests. `open` comes first, `close` last. */
export class Session {
  /** What the server told at the last handshake. @type {InitializeResult} */
  facts = /** @type {any} */ (null);
  /** Why the session is lost; null while it is not. @type {string | null} */
  loss = null;
  #options;
  #calls = new Calls();
  /** @type {Link | null} */
  #link = null;
  /** @type {Link | null} */
  #nextLink = null;
  /** @type {Listener | null} */
  #listener = null;
  #hurry = () => {};

  /** @param {SessionOptions} options */
  constructor(options) {
    this.#options = options;
  }

  /** Whether there is a connection at this moment. */
  get connected() {
    return this.#link !== null;
  }

  /** Whether an addition to the wire is in force, by its name in docs/protocol.md. @param {string} extension */
  has(extension) {
    return this.facts.extensions?.includes(extension) ?? false;
  }

  /**
   * Connect, and begin to listen.
   *
   * @param {Listener} listener
   * @throws {ConnectFailed}
   * @throws {import('./errors.js').ExecServerError} what the server answers to `initialize`
   */
  async open(listener) {
    this.#listener = listener;
    this.#attach(await this.#connect(this.#options.initialize));
  }

  /**
   * Make a request. While there is no connection it waits for one.
   *
   * @param {string} method
   * @param {Record<string, any>} params
   * @param {boolean} [repeat] whether this one may be sent again after a cut, although others of its kind may not
   * @returns {Call}
   * @throws {TransportDisconnected} once the session is lost
   */
  post(method, params, repeat = false) {
    if (this.loss !== null) throw new TransportDisconnected(this.loss);
    const call = this.#calls.add(method, params, repeat);
    if (this.#link !== null) this.#send(this.#link, call);
    return call;
  }

  /** Wait no longer for an answer. @param {Call} call */
  drop(call) {
    this.#calls.drop(call, new TransportDisconnected('nobody waits for the answer'));
  }

  /** Try to reconnect at once; on a connection, ask for a sign of life. */
  hurry() {
    this.#link?.probe();
    this.#hurry();
  }

  /** End the connection. What is not answered yet fails. */
  close() {
    const links = [this.#link, this.#nextLink];
    this.#lose('the client was closed');
    this.#hurry();
    for (const link of links) link?.close();
  }

  // -- one connection --------------------------------------------------------------------------------------------

  /**
   * A connection whose handshake is done.
   *
   * @param {InitializeParams} initialize
   * @returns {Promise<Link>}
   */
  async #connect(initialize) {
    const { url, codec, token, connectMs } = this.#options;
    const methodOf = (/** @type {unknown} */ id) => this.#calls.methodOf(id);
    const link = await openLink(url, { codec, token, timeoutMs: connectMs, methodOf });
    this.#nextLink = link;
    const call = this.#calls.add('initialize', initialize);
    const timer = setTimeout(() => ended(`no answer to initialize in ${connectMs} ms`), connectMs);
    const ended = (/** @type {string} */ reason) => {
      const text = `the server ended the connection before it answered initialize: ${reason}`;
      this.#calls.drop(call, new ConnectFailed(text));
    };
    link.onmessage = (message) => this.#dispatch(link, message);
    link.onclosed = ended;
    try {
      link.send({ id: call.id, method: call.method, params: call.params });
      this.facts = await call.promise;
      if (this.loss !== null) throw new TransportDisconnected(this.loss);
      return link;
    } catch (error) {
      link.close();
      throw error;
    } finally {
      clearTimeout(timer);
      this.#nextLink = null;
    }
  }

  /** From now on this is the connection. @param {Link} link */
  #attach(link) {
    link.onclosed = (reason) => void this.#cut(reason);
    link.send({ method: 'initialized' });
    for (const call of this.#calls) this.#send(link, call);
    this.#link = link;
    if (link.end !== null) void this.#cut(link.end);
  }

  /** @param {Link} link @param {Call} call */
  #send(link, call) {
    try {
      link.send({ id: call.id, method: call.method, params: call.params });
      call.sent = true;
    } catch (error) {
      this.#calls.drop(call, /** @type {Error} */ (error)); // it cannot be encoded
    }
  }

  /** @param {Link} link @param {Message} message */
  #dispatch(link, message) {
    if ('method' in message) {
      this.#listener?.notified(message.method, message.params ?? {});
    } else if ('error' in message) {
      const error = errorOf(message.error);
      if (message.id === -1) {
        link.fail(`the server did not understand a message: ${error.message}`);
      } else {
        this.#calls.take(message.id)?.fail(error);
      }
    } else {
      this.#calls.take(message.id)?.succeed(message.result);
    }
  }

  // -- many connections ------------------------------------------------------------------------------------------

  /** @param {string} reason */
  async #cut(reason) {
    this.#link = null;
    this.#calls.loseConnection(reason);
    this.#listener?.cut(reason);
    try {
      this.#attach(await this.#reconnect(reason));
      if (this.#link !== null) this.#listener?.resumed();
    } catch (error) {
      this.#lose(error instanceof TransportDisconnected ? error.reason : String(error));
    }
  }

  /**
   * A new connection of the same session.
   *
   * @param {string} reason of the cut
   * @returns {Promise<Link>}
   * @throws {TransportDisconnected} when there is none to be had
   */
  async #reconnect(reason) {
    const { reconnectMs, initialize } = this.#options;
    const resume = { clientName: initialize.clientName, resumeSessionId: this.facts.sessionId };
    const deadline = Date.now() + reconnectMs;
    let last;
    for (let delay = FIRST_DELAY_MS; ; delay = Math.min(delay * 2, LONGEST_DELAY_MS)) {
      await this.#pause(delay * (1 + Math.random() / 4));
      if (this.loss !== null) throw new TransportDisconnected(this.loss);
      try {
        return await this.#connect(resume);
      } catch (error) {
        last = /** @type {Error} */ (error);
        if (!(last instanceof ConnectFailed || last instanceof SessionAttached)) break;
        if (Date.now() >= deadline) break; // only behind an attempt: the machine may have slept through all of it
      }
    }
    throw new TransportDisconnected(`${reason}; the session could not be resumed: ${last.message}`);
  }

  /** @param {number} ms */
  #pause(ms) {
    return /** @type {Promise<void>} */ (
      new Promise((resolve) => {
        const timer = setTimeout(resolve, ms);
        this.#hurry = () => {
          clearTimeout(timer);
          resolve();
        };
      })
    );
  }

  /** @param {string} reason */
  #lose(reason) {
    if (this.loss !== null) return;
    this.loss = reason;
    this.#link = null;
    this.#calls.failAll(new TransportDisconnected(reason));
    this.#listener?.lost(reason);
  }
}
