import { describe, expect, it } from '@jest/globals';
import { type Hit, hits, wordedFiles, wordsOf } from '../support/words.ts';

/**
 * The words that this project used before it spoke the language of docs/glossary.md. As whole words and as parts of
 * names: `lane` finds `createLane` and `lane-id`, not `planes`. A `*` matches the rest of a word.
 */
const gone: readonly string[] = [
  'errands',
  'roster',
  'rosters',
  'lanes',
  'wish',
  'wishes',
  'shelf',
  'repeatable',
  'unrepeatable',
  'mend',
  'mends',
  'going on',
  'authoris*',
  'behaviour',
  'recogniser',
  'seldom',
  'the way to it',
  'may try again',
  'no matter',
  'note refusal',
  'allowPlainHttp',
  'repeatAfterRejection',
  'countersign_in_flight_limit',
  'countersign_rejections_total',
  'countersign_outcomes_total',
  'countersign_key_requests_total',
  'countersign_policy_decisions_total',
  'CountersignFailuresBurn*',
  'CountersignLatencyBurn*',
  'KeysRunOut',
  'TokenNearExpiry',
  'CountersignGatewayRejects',
  'PolicyRefusals',
  'VersionsDiffer',
  'keys asked for',
  'crossing',
  'errand',
  'passage',
  'passages',
  'lane',
  'shelves',
  'asker',
  'vitals',
  'by how they were had',
  'stood',
  'refusal',
  'refusals',
  'would refuse',
  'bearable',
  'bold',
  'manner',
  'fruitless',
  'report mode',
  'Simulator-Invented',
  'spelt',
  'hundredth',
  'door',
  'doors',
  'licence',
  'recognis*',
  'normalis*',
  'initialis*',
  'uninitialis*',
  'lets go',
  'hung up',
  'mended',
  'beyond this machine',
  'crossings',
  'sighting',
  'sightings',
  'stands',
  'meter',
  'serialis*',
  'colour',
  'under way',
  'nobody',
  'somebody',
  'whoever',
  'told',
  'tell',
  'let go',
  'of their own',
  'stand',
  'goes on',
  'go on',
  'taken',
  'vain',
  'exchange',
  'exchanges',
  'reply',
  'operations port',
  'a defect',
  'tells',
  'of its own',
  'asked',
  'asks',
  'replies',
  'answer',
  'answers',
  'throw away',
  'requests a second',
  'so many milliseconds',
  'becomes of',
  'became of',
  'steadyLooks',
  'see what bypasses',
  'keep signing',
  'given none',
  'ends with a slash',
  'The option is',
  'interface does not show',
  'or never will',
  'cannot start: Cannot',
];

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

  it.each(gone)('%s', (word) => {
    expect(hits(files, word).map(inWords)).toEqual([]);
  });

  it('are each listed once', () => {
    expect(gone.filter((word, index) => gone.indexOf(word) !== index)).toEqual([]);
  });
});

function inWords({ path, count }: Hit): string {
  return `${path}: ${count}`;
}
