'use strict';

/**
 * The first release of each line of Node that never takes bytes that came before a request for its response
 * (CVE-2026-48931, CVE-2026-105481). `engines` in package.json is the same list. Plain JavaScript, since bin/pick-node
 * asks any Node.
 *
 * @type {Readonly<Record<number, readonly [minor: number, patch: number] | undefined>>}
 */
const firstPatched = { 22: [23, 4], 24: [22, 1], 26: [12, 1] };

/** @param {string} version such as `v26.12.1` */
exports.isPatchedNode = (version = process.version) => {
  const [major = 0, minor = 0, patch = 0] = version.slice(1).split('.').map(Number);
  const first = firstPatched[major];
  if (first === undefined) return major > 26;
  return minor > first[0] || (minor === first[0] && patch >= first[1]);
};
