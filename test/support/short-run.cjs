/**
 * jest's filter for `npm test`: without the long runs, unless the paths on the command line lead only to them.
 * `npm run test:long` selects only long runs, so all of them stay.
 *
 * @param {string[]} paths
 */
module.exports = (paths) => {
  const short = paths.filter((path) => !path.endsWith('.long.test.ts'));
  return { filtered: short.length > 0 ? short : paths };
};
