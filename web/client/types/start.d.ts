/**
 * @param {EnvironmentInfo} machine
 * @param {string[]} argv
 * @param {StartOptions} options
 * @returns {StartParams}
 * @throws {TypeError} for a command line instead of a list
 */
export function startParams(machine: EnvironmentInfo, argv: string[], options: StartOptions): StartParams;
/**
 * A path of a server's machine, relative to the server's own folder, as a URI. URIs stay as they are.
 *
 * @param {EnvironmentInfo} machine
 * @param {string} path
 */
export function uriOn(machine: EnvironmentInfo, path: string): string;
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
export const INHERIT: import("./protocol.js").EnvPolicy;
export type EnvironmentInfo = import("./protocol.js").EnvironmentInfo;
export type StartParams = import("./protocol.js").StartParams;
export type StartOptions = {
    /**
     * on a terminal, of `rows` by `cols`; else on pipes
     */
    tty?: boolean | undefined;
    rows?: number | undefined;
    cols?: number | undefined;
    /**
     * whether there is a pipe to write to; always, on a terminal
     */
    stdin?: boolean | undefined;
    /**
     * a path on the server, relative to the server's own folder, or a `file:` URI
     */
    cwd?: string | undefined;
    /**
     * the whole environment; without it the server's is inherited, but for names
     * that look like secrets
     */
    env?: Record<string, string> | undefined;
    /**
     * what is inherited
     */
    envPolicy?: import("./protocol.js").EnvPolicy | undefined;
    /**
     * how long it may run
     */
    timeoutMs?: number | undefined;
    /**
     * how long it may have neither output nor input
     */
    idleTimeoutMs?: number | undefined;
    /**
     * how long after the exit descendants may hold the output open
     */
    closedAfterExitMs?: number | undefined;
    /**
     * what becomes of it when the connection ends
     */
    onDisconnect?: "keep" | "terminate" | undefined;
    limits?: import("./protocol.js").ResourceLimits | undefined;
    /**
     * whether its terminal is recorded
     */
    record?: boolean | undefined;
    sandbox?: import("./protocol.js").Sandbox | undefined;
    host?: string | undefined;
    /**
     * its id; made up, if it is absent
     */
    processId?: string | undefined;
};
