'use strict';

/**
 * Exits with one clear message if Node is too old to run any command. Plain JavaScript that every Node version can run: an
 * older one fails with a stack trace, or "bad option", before it loads any TypeScript. npm runs it before the scripts,
 * and main.ts loads it first.
 */
const [major, minor] = [22, 18];
const [ownMajor = 0, ownMinor = 0] = process.version.slice(1).split('.').map(Number);

if (ownMajor < major || (ownMajor === major && ownMinor < minor)) {
  process.stderr.write(
    `Countersign requires Node ${major}.${minor} or later, but this is Node ${process.version.slice(1)}` +
      ` (${process.execPath}). Upgrade Node, or on Linux x64 run "npm ci" without --omit=optional,` +
      ' which installs one.\n',
  );
  process.exit(1);
}
