'use strict';

/**
 * Exits with one clear message if Node is older than `engines` in package.json requires. Plain JavaScript that every Node
 * version can run: an older one fails with a stack trace, or "bad option", before it loads any TypeScript. npm runs it
 * before the scripts, main.ts loads it first, and the image build runs it.
 */
const { readFileSync } = require('fs');
const { join } = require('path');

const [major, minor] = parseVersion(
  JSON.parse(readFileSync(join(__dirname, '../package.json'), 'utf8')).engines.node,
);
const [ownMajor, ownMinor] = parseVersion(process.version);

if (ownMajor < major || (ownMajor === major && ownMinor < minor)) {
  process.stderr.write(
    `Countersign requires Node ${major}.${minor} or later, but this is Node ${process.version.slice(1)}` +
      ` (${process.execPath}). Upgrade Node, or on Linux x64 run "npm ci" without --omit=optional,` +
      ' which installs one.\n',
  );
  process.exit(1);
}

/**
 * @param {string} version such as `v22.18.0` or `>=22.18`
 * @returns {[major: number, minor: number]}
 */
function parseVersion(version) {
  const [major = 0, minor = 0] = version.replace(/^\D+/, '').split('.').map(Number);
  return [major, minor];
}
