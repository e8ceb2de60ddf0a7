/**
 * Options of a start in the params of the wire. Pure.
 *
 * @module
 */

import { randomId } from './ids.js';

/** @typedef {import('./protocol.js').EnvironmentInfo} EnvironmentInfo */
/** @typedef {import('./protocol.js').StartParams} StartParams */

/**
 * @typedef {object} StartOptions
 * @property {boolean} [tty] on a terminal, of `rows` by `cols`; else on pipes
 * @property {number} [rows]
 * @property {number} [cols]
 * @property {boolean} [stdin] whether there is a pipe to write to; always, on a terminal
 * @property {string} [cwd] a path on the server, relative to the server's own folder, or a `file:` URI
 * @property {Record<string, string>} [env] the whole environment; without it the server's is inherited, but for names
 *   that look like secrets
 * @property {import('./protocol.js').EnvPolicy} [envPolicy] what is inherited
 * @property {number} [timeoutMs] how long it may run
 * @property {number} [idleTimeoutMs] how long it may have neither output nor input
 * @property {number} [closedAfterExitMs] how long after the exit descendants may hold the output open
 * @property {'keep' | 'terminate'} [onDisconnect] what becomes of it when the connection ends
 * @property {import('./protocol.js').ResourceLimits} [limits]
 * @property {boolean} [record] whether its terminal is recorded
 * @property {import('./protocol.js').Sandbox} [sandbox]
 * @property {string} [host]
 * @property {string} [processId] its id; made up, if it is absent
 */

/** The environment of the server, without names that have KEY, SECRET or TOKEN in them. */
/** @type {import('./protocol.js').EnvPolicy} */
export const INHERIT = { inherit: 'all', ignoreDefaultExcludes: false, exclude: [], set: {}, includeOnly: [] };

/**
 * @param {EnvironmentInfo} machine
 * @param {string[]} argv
 * @param {StartOptions} options
 * @returns {StartParams}
 * @throws {TypeError} for a command line instead of a list
 */
export function startParams(machine, argv, options) {
  if (!Array.isArray(argv)) {
    throw new TypeError(`argv is an array of strings, not ${typeof argv}; for a command line: ['sh', '-c', LINE]`);
  }
  const { processId = randomId(), tty = false, stdin = false, cwd, env, envPolicy, ...others } = options;
  return {
    processId,
    argv,
    cwd: cwd === undefined ? machine.cwd : uriOn(machine, cwd),
    env: env ?? {},
    tty,
    pipeStdin: stdin && !tty,
    envPolicy: envPolicy ?? (env === undefined ? INHERIT : undefined),
    ...others,
  };
}

/**
 * A path of a server's machine, relative to the server's own folder, as a URI. URIs stay as they are.
 *
 * @param {EnvironmentInfo} machine
 * @param {string} path
 */
export function uriOn(machine, path) {
  if (path.startsWith('file:')) return path;
  const encoded = path.split('/').map(encodeURIComponent).join('/');
  return path.startsWith('/') ? `file://${encoded}` : `${machine.cwd.replace(/\/$/, '')}/${encoded}`;
}
