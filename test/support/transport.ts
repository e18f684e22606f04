/**
 * How the tests of this file reach a Countersign: with TLS it has a client CA, so that each connection passes through
 * the guard of handshakes. A file with the suite of another one sets it before it imports that suite.
 */
export const transport: { tls: boolean } = { tls: false };
