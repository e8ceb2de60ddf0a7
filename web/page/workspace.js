/**
 * The session of this browser, which owns its terminals, over all its pages.
 *
 * A session has one connection. The first page holds it; other pages of the same browser look at its processes from
 * sessions of their own, by its id, and can do the same. When the first page is gone another one takes over.
 *
 * @module
 */

import { SessionAttached, InvalidRequest, connect } from '../client/index.js';
import { socketUrl } from './access.js';
import { change, settings } from './settings.js';

/** How long the session lives without any page, in ms: the server may cut it to less. */
const SESSION_TTL_MS = 24 * 3600 * 1000;
/** A page that is reloaded may find its old connection still there for a moment. */
const HELD_RETRIES = 4;
const HELD_RETRY_MS = 250;
/** How often a page that is not the first looks whether it can be. */
const TAKE_OVER_MS = 15_000;

const OPTIONS = { clientName: 'exec-server page', reconnectMs: Infinity };

/** @typedef {import('../client/client.js').ExecServerClient} Client */

/** The connection of this page. `onlost` hears when it has to be opened anew. */
export class Workspace {
  /** @type {Client} */
  client = /** @type {any} */ (null);
  /** The session that owns the terminals. */
  sessionId = '';
  observeId = '';
  /** Whether this page holds that session. */
  holds = false;
  onlost = () => {};
  ondisconnected = () => {};
  onreconnected = () => {};
  #timer = 0;

  /** Go on with the session of this browser, or begin one. */
  async open() {
    const known = settings().session;
    if (known === null || !(await this.#resume(known))) {
      this.#use(await connect(socketUrl(), { ...OPTIONS, sessionTtlMs: SESSION_TTL_MS }), true);
      this.sessionId = this.client.sessionId;
      change({ session: this.sessionId, hidden: [] });
    }
    clearInterval(this.#timer);
    if (!this.holds) this.#timer = window.setInterval(() => this.#takeOver(), TAKE_OVER_MS);
  }

  /** @param {string} known */
  async #resume(known) {
    this.sessionId = known;
    for (let attempt = 0; attempt <= HELD_RETRIES; attempt += 1) {
      try {
        this.#use(await connect(socketUrl(), { ...OPTIONS, resumeSessionId: known }), true);
        return true;
      } catch (error) {
        if (!(error instanceof SessionAttached)) {
          if (error instanceof InvalidRequest) return false; // its time was over
          throw error;
        }
        await new Promise((resolve) => setTimeout(resolve, HELD_RETRY_MS));
      }
    }
    this.#use(await connect(socketUrl(), { ...OPTIONS, sessionTtlMs: 0 }), false);
    return true;
  }

  /** @param {Client} client @param {boolean} holds */
  #use(client, holds) {
    this.client = client;
    this.holds = holds;
    if (holds) this.observeId = client.observeId;
    client.addEventListener('disconnected', () => this.ondisconnected());
    client.addEventListener('reconnected', () => this.onreconnected());
    client.addEventListener('lost', () => {
      if (this.client === client) this.onlost();
    });
  }

  async #takeOver() {
    try {
      const client = await connect(socketUrl(), { ...OPTIONS, resumeSessionId: this.sessionId });
      clearInterval(this.#timer);
      const old = this.client;
      this.#use(client, true);
      old.close();
      this.onlost();
    } catch {
      // Another page holds it.
    }
  }

  /** A handle of a process, of whatever session. @param {string} processId @param {string} sessionId @param {any} after */
  async handle(processId, sessionId, after) {
    if (sessionId === this.client.sessionId) return this.client.attach(processId, { after });
    return this.client.watch(processId, { sessionId, after });
  }

  /** What a request has to say besides, to be about a session. @param {string} sessionId */
  of(sessionId) {
    return sessionId === this.client.sessionId ? {} : { sessionId };
  }

  /**
   * Start a program on a terminal; its id. A page that does not hold the session cannot: then it is a session of its own.
   *
   * @param {string[]} argv
   * @param {{cwd?: string, rows: number, cols: number}} options
   */
  async start(argv, options) {
    const env = { TERM: 'xterm-256color', COLORTERM: 'truecolor' };
    const envPolicy = { inherit: /** @type {const} */ ('all'), ignoreDefaultExcludes: false, exclude: [], set: env, includeOnly: [] };
    return this.client.start(argv, { tty: true, env: {}, envPolicy, ...options });
  }

  close() {
    clearInterval(this.#timer);
    this.client?.close();
  }
}
