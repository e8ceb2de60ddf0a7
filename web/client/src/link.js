/**
 * One WebSocket, and the messages on it. A server that gives no sign of life counts as gone.
 *
 * @module
 */

import { ConnectFailed, DecodeError } from './errors.js';

/** @typedef {import('./codec.js').Codec} Codec */
/** @typedef {import('./codec.js').Message} Message */

/**
 * @typedef {object} LinkOptions
 * @property {Codec} codec
 * @property {string | undefined} token
 * @property {number} timeoutMs how long connecting may take
 * @property {(id: unknown) => string | undefined} methodOf
 */

/** How long the server may be silent before it is asked for a sign of life. */
const SILENCE_MS = 15_000;
/** How long it has to give one. */
const SIGN_MS = 10_000;

/** The one id that no call has: what is answered to it is only a sign of life. */
export const PROBE_ID = 'sign-of-life';

/**
 * Connect.
 *
 * @param {string} url
 * @param {LinkOptions} options
 * @returns {Promise<Link>}
 * @throws {ConnectFailed} also when it takes too long; the browser does not tell a page why
 */
export function openLink(url, options) {
  return new Promise((resolve, reject) => {
    const socket = openSocket(url, options);
    const failed = (/** @type {string} */ reason) => {
      clearTimeout(timer);
      socket.onopen = socket.onerror = socket.onclose = null;
      socket.close();
      reject(new ConnectFailed(`cannot connect to exec-server at ${shown(url)}: ${reason}`));
    };
    const timer = setTimeout(() => failed(`no answer in ${options.timeoutMs} ms`), options.timeoutMs);
    socket.onerror = () => failed('refused, or not reachable');
    socket.onclose = () => failed('refused');
    socket.onopen = () => {
      clearTimeout(timer);
      resolve(new Link(socket, options));
    };
  });
}

/** @param {string} url @param {LinkOptions} options @returns {WebSocket} */
function openSocket(url, { codec, token }) {
  if (typeof WebSocket === 'undefined') throw new TypeError('there is no WebSocket here: Node 22 or a browser is needed');
  const protocols = codec.subprotocol === null ? [] : [codec.subprotocol];
  if (token === undefined) return new WebSocket(url, protocols);
  if (typeof document !== 'undefined') {
    throw new TypeError('a page cannot send a token along with a WebSocket; the server lets it in by a cookie');
  }
  const options = { protocols, headers: { Authorization: `Bearer ${token}` } };
  return new WebSocket(url, /** @type {any} */ (options)); // what Node's takes besides
}

/** A URL as it may be shown: without user, password and query. @param {string} url */
function shown(url) {
  try {
    const { protocol, host, pathname } = new URL(url);
    return `${protocol}//${host}${pathname}`;
  } catch {
    return '(not a URL)';
  }
}

/** An open WebSocket. `onmessage` hears each message, `onclosed` once of the end, unless `close` was called before. */
export class Link {
  /** @type {(message: Message) => void} */
  onmessage = () => {};
  /** @type {(reason: string) => void} */
  onclosed = () => {};
  /** Why it is over; null while it is not. @type {string | null} */
  end = null;
  #socket;
  #options;
  #heard = false;
  /** @type {ReturnType<typeof setInterval>} */
  #watch;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #sign;

  /** @param {WebSocket} socket @param {LinkOptions} options */
  constructor(socket, options) {
    this.#socket = socket;
    this.#options = options;
    socket.binaryType = 'arraybuffer';
    socket.onmessage = (event) => this.#received(event.data);
    socket.onerror = () => {};
    socket.onclose = (event) => this.fail(closeReason(event));
    this.#watch = setInterval(() => this.#judgeSilence(), SILENCE_MS);
  }

  /** @param {Message} message @throws {TypeError} for what cannot be encoded */
  send(message) {
    const data = this.#options.codec.encode(message);
    if (this.#socket.readyState === 1) this.#socket.send(data);
  }

  /** Bytes that the socket has taken and not sent yet. */
  get bufferedBytes() {
    return this.#socket.bufferedAmount;
  }

  /** Say goodbye; nothing is heard any more. */
  close() {
    this.onclosed = () => {};
    this.fail('closed');
  }

  /** @param {string | ArrayBuffer} data */
  #received(data) {
    this.#heard = true;
    clearTimeout(this.#sign);
    this.#sign = undefined;
    try {
      const message = this.#options.codec.decode(data, this.#options.methodOf);
      if (message.id !== PROBE_ID) this.onmessage(message);
    } catch (error) {
      if (!(error instanceof DecodeError)) throw error;
      this.fail(`the server sent what is no message: ${error.message}`);
    }
  }

  #judgeSilence() {
    if (!this.#heard) this.probe();
    this.#heard = false;
  }

  /** Ask for a sign of life; without one the link ends. */
  probe() {
    if (this.#sign !== undefined) return;
    this.send({ id: PROBE_ID, method: 'environment/status', params: {} });
    this.#sign = setTimeout(() => this.fail('the server gives no sign of life'), SIGN_MS);
  }

  /** It is over; `onclosed` hears of it. @param {string} reason */
  fail(reason) {
    if (this.end !== null) return;
    this.end = reason;
    clearInterval(this.#watch);
    clearTimeout(this.#sign);
    const socket = this.#socket;
    socket.onmessage = socket.onclose = null;
    socket.close();
    this.onclosed(reason);
  }
}

/** @param {CloseEvent} event */
function closeReason({ code, reason }) {
  if (code === 1006) return 'the connection was cut';
  return `the server closed the connection with code ${code} ${reason}`.trimEnd();
}
