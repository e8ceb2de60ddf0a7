/**
 * A session on a server, as a program uses it.
 *
 * @module
 */

import { JSON_CODEC, MSGPACK_CODEC } from './codec.js';
import { Demultiplexer } from './demultiplexer.js';
import { UnknownProcess } from './errors.js';
import { randomId } from './ids.js';
import { Process } from './process.js';
import { Session } from './session.js';
import { startParams } from './start.js';

/** @typedef {import('./protocol.js').ExitStatus} ExitStatus */
/** @typedef {import('./protocol.js').Methods} Methods */
/** @typedef {import('./protocol.js').Position} Position */
/** @typedef {import('./protocol.js').ProcessEntry} ProcessEntry */
/** @typedef {import('./start.js').StartOptions} StartOptions */

/**
 * @typedef {object} ConnectOptions
 * @property {string} [token] for `--ws-auth`; not in a page, which comes in by its cookie
 * @property {string} [clientName] for people
 * @property {string | null} [resumeSessionId] go on with this session
 * @property {number} [sessionTtlMs] how long the new session lives without a connection; the server's, if absent
 * @property {'msgpack' | 'json'} [encoding] MessagePack is a third less on the wire; JSON is for servers without it,
 *   which a browser does not let be connected to with MessagePack
 * @property {number} [connectMs] how long a connection and its handshake may take; 10 s, if absent
 * @property {number} [reconnectMs] how long a session is tried to be resumed after a cut; 45 s, if absent. May be Infinity.
 */

/**
 * Connect to a server.
 *
 * @param {string} url `ws://HOST:PORT` or `wss://HOST:PORT`
 * @param {ConnectOptions} [options]
 * @returns {Promise<ExecServerClient>}
 * @throws {import('./errors.js').ConnectFailed}
 * @throws {import('./errors.js').ExecServerError} what the server answers: InvalidRequest for an unknown session,
 *   SessionAttached for one that another connection holds
 */
export async function connect(url, options = {}) {
  const { token, clientName = 'exec-server-client', resumeSessionId = null, sessionTtlMs } = options;
  const session = new Session({
    url,
    codec: options.encoding === 'json' ? JSON_CODEC : MSGPACK_CODEC,
    token,
    initialize: { clientName, resumeSessionId, sessionTtlMs },
    connectMs: options.connectMs ?? 10_000,
    reconnectMs: options.reconnectMs ?? 45_000,
  });
  const client = new ExecServerClient(session);
  await client.open();
  return client;
}

/**
 * Starts processes on a server, and hears of them. Made by `connect`.
 *
 * Its events, for `addEventListener`, are CustomEvents: `disconnected` (`detail.reason`) and `reconnected` for each cut,
 * `lost` (`detail.reason`) when the session is over, and `notification` (`detail.method`, `detail.params`) for all that is
 * not of a process.
 */
export class ExecServerClient extends EventTarget {
  #session;
  #demultiplexer;

  /** Not for users: see `connect`. @param {Session} session */
  constructor(session) {
    super();
    this.#session = session;
    this.#demultiplexer = new Demultiplexer(session, (name, detail) => {
      this.dispatchEvent(new CustomEvent(name, { detail }));
    });
  }

  /** Not for users: see `connect`. */
  async open() {
    await this.#session.open(this.#demultiplexer);
  }

  /** Id of the session. Whoever knows it has full power over the session: it is a secret. */
  get sessionId() {
    return this.#session.facts.sessionId;
  }

  /** With this id others can watch the session. */
  get observeId() {
    return this.#session.facts.observeId;
  }

  /** What the server's machine is. */
  get environmentInfo() {
    return this.#session.facts.environmentInfo;
  }

  /** The additions to the wire that the server has in force, by their names in docs/protocol.md. */
  get extensions() {
    return [...(this.#session.facts.extensions ?? [])];
  }

  /** Whether there is a connection at this moment. */
  get connected() {
    return this.#session.connected;
  }

  /**
   * Any request of docs/protocol.md: `await client.call('process/list', {})`. Bytes are Uint8Arrays.
   *
   * @template {keyof Methods} M
   * @param {M} method
   * @param {Methods[M]['params']} params
   * @returns {Promise<Methods[M]['result']>}
   * @throws {import('./errors.js').ExecServerError} what the server answers
   * @throws {import('./errors.js').TransportDisconnected} if the session is lost, or the connection before an answer to
   *   what cannot be repeated
   */
  async call(method, params) {
    return this.#session.post(method, params).promise;
  }

  /**
   * Start a program; resolves when it is being executed. A start is never sent twice.
   *
   * @param {string[]} argv
   * @param {StartOptions} [options]
   * @returns {Promise<Process>}
   * @throws {import('./errors.js').SpawnError} if it cannot be started
   * @throws {import('./errors.js').ProcessExists} if its id is in use
   * @throws {import('./errors.js').TransportDisconnected} if the session is lost, or the connection was cut before the
   *   program was started
   */
  async start(argv, options = {}) {
    const params = startParams(this.environmentInfo, argv, options);
    const entry = this.#demultiplexer.add(params.processId);
    try {
      entry.start = this.#session.post('process/start', params);
      await entry.start.promise;
    } catch (error) {
      this.#demultiplexer.remove(entry);
      throw error;
    }
    return new Process(this.#session, entry, params);
  }

  /**
   * Run a program to its end, and collect its output.
   *
   * @param {string[]} argv
   * @param {StartOptions & {input?: string | Uint8Array}} [options] `input` is written to its standard input
   * @returns {Promise<ExitStatus & {stdout: Uint8Array, stderr: Uint8Array}>}
   */
  async run(argv, { input, ...options } = {}) {
    const process = await this.start(argv, { ...options, stdin: input !== undefined });
    const feeding = input === undefined ? undefined : feed(process, input);
    const [stdout, stderr] = await Promise.all([collect(process.stdout), collect(process.stderr), feeding]);
    return { ...(await process.wait()), stdout, stderr };
  }

  /** All processes of the session whose record is there, in the order of their starts. @returns {Promise<ProcessEntry[]>} */
  async list() {
    return (await this.call('process/list', {})).processes;
  }

  /**
   * A handle of a process of this session that has none here: one that was started before a resume.
   *
   * @param {string} processId
   * @param {{after?: Position}} [options] where its output was left: `position` of the handle there was; without it, what
   *   the server has retained comes, with a gap before it if that is not all
   * @returns {Promise<Process>}
   * @throws {UnknownProcess} if there is none of this id
   * @throws {import('./errors.js').InvalidRequest} if it has a handle here
   */
  async attach(processId, { after } = {}) {
    const entry = this.#demultiplexer.add(processId, null, after);
    try {
      const found = (await this.list()).find((each) => each.processId === processId);
      if (found === undefined) {
        throw new UnknownProcess(`unknown process id ${processId}`, -32600, { kind: 'unknownProcess' });
      }
      entry.feed.miss();
      entry.catchUp();
      return new Process(this.#session, entry, found);
    } catch (error) {
      this.#demultiplexer.remove(entry);
      throw error;
    }
  }

  /**
   * A handle of a process of another session. With its `sessionId` it can be used like one's own; with an `observeId` it can
   * only be looked at.
   *
   * @param {string} processId
   * @param {{sessionId?: string, observeId?: string, after?: Position}} options
   * @returns {Promise<Process>}
   * @throws {import('./errors.js').ExecServerError} what the server answers
   */
  async watch(processId, { sessionId, observeId, after }) {
    const foreign = { processId, sessionId, observeId };
    const entry = this.#demultiplexer.add(randomId(), foreign, after);
    try {
      const found = sessionId === undefined ? undefined : await this.#find(processId, sessionId);
      await entry.attach();
      return new Process(this.#session, entry, found ?? {});
    } catch (error) {
      this.#demultiplexer.remove(entry);
      throw error;
    }
  }

  /** @param {string} processId @param {string} sessionId */
  async #find(processId, sessionId) {
    const { processes } = await this.call('process/list', { sessionId });
    return processes.find((each) => each.processId === processId);
  }

  /**
   * Try to reconnect at once, or see whether the connection lives: for a page that is shown again, or a machine that is
   * back on the network.
   */
  hurry() {
    this.#session.hurry();
  }

  /** End the connection. The session, and its processes, live on at the server for as long as its lifetime says. */
  close() {
    this.#session.close();
  }
}

/** @param {Process} process @param {string | Uint8Array} input */
async function feed(process, input) {
  try {
    await process.write(input);
    await process.closeStdin();
  } catch {
    // That it does not read its input is no fault; anything else the end of its output tells.
  }
}

/** @param {ReadableStream<Uint8Array>} stream */
async function collect(stream) {
  return new Uint8Array(await new Response(/** @type {any} */ (stream)).arrayBuffer());
}
