'use strict';

/**
 * What Countersign needs of Node, in plain JavaScript that every version can run. Loaded, it exits with one clear message
 * on a Node that is too old: that would fail with a stack trace, or "bad option", before it loads any TypeScript. npm runs
 * it before the scripts, main.ts loads it first, and the image build runs it. With `--is-good`, it exits with 1 unless the
 * Node keeps responses apart.
 */

/** The first version that can run Countersign: it strips types by itself. */
const first = { major: 22, minor: 18 };
/**
 * The first version of each release line that keeps responses apart: earlier ones can take bytes that came on an idle
 * connection for the response to the next request (CVE-2026-48931, CVE-2026-105481; SECURITY.md).
 *
 * @type {Readonly<Record<number, readonly [number, number]>>}
 */
const firstGood = { 22: [23, 4], 24: [22, 1], 26: [12, 1] };
/** The versions to use, for messages. */
const goodVersions = `${Object.entries(firstGood)
  .map(([major, [minor, patch]]) => `${major}.${minor}.${patch}`)
  .join(', ')} or later`;

/**
 * Whether this Node may use connections again.
 *
 * @param {string} version such as `v26.12.1`
 */
function keepsResponsesApart(version) {
  const [major = 0, minor = 0, patch = 0] = partsOf(version);
  const good = firstGood[major];
  if (good === undefined) return major > 26;
  return minor > good[0] || (minor === good[0] && patch >= good[1]);
}

/** @param {string} version */
function partsOf(version) {
  return version.replace(/^v/, '').split('.').map(Number);
}

const [major = 0, minor = 0] = partsOf(process.version);
if (major < first.major || (major === first.major && minor < first.minor)) {
  const inCheckout = ', or on Linux x64 run "npm ci" without --omit=optional, which installs one';
  process.stderr.write(
    `Countersign requires Node ${goodVersions}, but this is Node ${process.version.slice(1)} (${process.execPath}).` +
      ` Upgrade Node${__dirname.endsWith('src') ? inCheckout : ''}.\n`,
  );
  process.exit(1);
}
if (require.main === module && process.argv[2] === '--is-good' && !keepsResponsesApart(process.version))
  process.exit(1);

module.exports = { goodVersions, keepsResponsesApart };
