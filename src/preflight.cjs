'use strict';

/**
 * Ends the process with one sentence where Node is older than `engines` in package.json asks for. Plain JavaScript
 * that every Node can run: an older one fails with a stack trace, or "bad option", before it has loaded any
 * TypeScript. npm runs it ahead of the scripts, main.ts loads it first, and the build of the image runs it.
 */
const { readFileSync } = require('fs');
const { join } = require('path');

const [major, minor] = numbersIn(
  JSON.parse(readFileSync(join(__dirname, '../package.json'), 'utf8')).engines.node,
);
const [ownMajor, ownMinor] = numbersIn(process.version);

if (ownMajor < major || (ownMajor === major && ownMinor < minor)) {
  process.stderr.write(
    `Countersign needs Node ${major}.${minor} or later, and this is Node ${process.version.slice(1)}` +
      ` (${process.execPath}): install a later Node, or on Linux x64 run "npm ci" without --omit=optional,` +
      ' which brings one.\n',
  );
  process.exit(1);
}

/**
 * @param {string} version such as `v22.18.0` or `>=22.18`
 * @returns {[major: number, minor: number]}
 */
function numbersIn(version) {
  const [major = 0, minor = 0] = version.replace(/^\D+/, '').split('.').map(Number);
  return [major, minor];
}
