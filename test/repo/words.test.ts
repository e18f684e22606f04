import { describe, expect, it } from '@jest/globals';
import { hits, wordedFiles, wordsOf } from '../support/words.ts';

/**
 * The words that this project used before it spoke the language of docs/glossary.md. As whole words and as parts of
 * names: `lane` finds `createLane` and `lane-id`, not `planes`. A `*` matches the rest of a word.
 */
const gone = `
  *initialis*, a defect, answer, answers, asked, asker, asks, authoris*, bearable, became of, becomes of,
  behaviour, beyond this machine, bold, by how they were had, cannot start: Cannot, colour, crossing*,
  door*, ends with a slash, errand*, exchange*, fruitless, given none, go on, goes on, going on, hundredth,
  hung up, interface does not show, keep signing, keys asked for, lane*, let go, lets go, licence, manner,
  may try again, mend*, meter, no matter, nobody, normalis*, note refusal, of its own, of their own,
  operations port, or never will, passage*, recognis*, refusal*, repeatable, replies, reply, report mode,
  requests a second, roster*, see what bypasses, seldom, serialis*, shelf, shelves, sighting*, so many
  milliseconds, somebody, spelt, stand, stands, stood, taken, tell, tells, The option is, the way to it,
  throw away, told, under way, unrepeatable, vain, vitals, whoever, wish*, would refuse,
  allowPlainHttp, repeatAfterRejection, countersign_in_flight_limit, countersign_rejections_total,
  countersign_outcomes_total, countersign_key_requests_total, countersign_policy_decisions_total,
  CountersignFailuresBurn*, CountersignLatencyBurn*, KeysRunOut, TokenNearExpiry, CountersignGatewayRejects,
  PolicyRefusals, VersionsDiffer, Simulator-Invented, steadyLooks
`
  .split(',')
  .map((word) => word.trim());

/** What may use them: the page that explains them, this list, what happened, and data that others made. */
const allowed: readonly string[] = [
  'docs/glossary.md',
  'test/repo/words.test.ts',
  'CHANGELOG.md',
  'LICENSE',
  'package-lock.json',
  'test/vectors',
];

/** Names that callers and dashboards rely on, and so stay as they are. */
const publicNames: readonly string[] = ['gateway-reply-invalid'];

const files = wordedFiles(
  [
    '*.{md,json,ts,yaml}',
    'Dockerfile',
    '.ci/run',
    '{src,scripts,deploy,helm,config,docs,test}/**/*.{ts,mts,cjs,js,md,yaml,yml,tpl,txt,hcl,sh}',
    '{config,helm}/**/*.json',
    'deploy/grafana/*.json',
  ],
  allowed,
  publicNames,
);

describe('words that must not come back', () => {
  it('are looked for in every text of the project, and its file names', () => {
    const paths = files.map(({ path }) => path);
    expect(paths).toEqual(
      expect.arrayContaining(['README.md', 'src/main.ts', 'helm/countersign/values.yaml']),
    );
    expect(paths.length).toBeGreaterThan(450);
  });

  it('are found in names of every form, across lines, and only as whole words', () => {
    const text = ' createLane LaneID\n * is under\n * way the_lane planes lanes TLSLane ';
    const file = [{ path: 'x', words: wordsOf(text) }];
    expect(hits(file, 'lane')).toEqual([{ path: 'x', count: 4 }]);
    expect(hits(file, 'lane*')).toEqual([{ path: 'x', count: 5 }]);
    expect(hits(file, 'under way')).toEqual([{ path: 'x', count: 1 }]);
    expect(hits(file, 'way')).toEqual([{ path: 'x', count: 1 }]);
  });

  it('are in none of them', () => {
    const found = gone.flatMap((word) => hits(files, word).map(({ path }) => `${word}: ${path}`));
    expect(found).toEqual([]);
  });
});
