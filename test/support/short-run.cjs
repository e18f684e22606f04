/**
 * jest's filter for `npm test`: without the slow and long runs, unless the paths on the command line lead only to them.
 * `npm run test:slow` and `npm run test:long` select only such runs, so all of them stay.
 *
 * @param {string[]} paths
 */
module.exports = (paths) => {
  const short = paths.filter((path) => !/\.(slow|long)\.test\.ts$/.test(path));
  return { filtered: short.length > 0 ? short : paths };
};
