/**
 * Ids that nobody else makes up.
 *
 * @module
 */
/** A random UUID (RFC 9562, version 4), also in pages that are no secure context. @returns {string} */
export function randomId(): string;
