const { default: Sequencer } = require('@jest/test-sequencer');

/** Files that take minutes. */
const longest = /\/(documented-examples|sample-clients|rotations-at-human-pace|incidents|status-page-updates)\./;

/** @param {{ path: string }} test */
const place = ({ path }) => (longest.test(path) ? 0 : 1);

/** jest's order, but with these first: a clean clone has no durations, and would start the longest ones last. */
module.exports = class LongestFirst extends Sequencer {
  /**
   * @override
   * @param {import('@jest/test-result').Test[]} tests
   */
  async sort(tests) {
    const sorted = await super.sort(tests);
    return sorted.toSorted((one, other) => place(one) - place(other));
  }
};
