import { describe, expect, it } from '@jest/globals';
import { type Hit, hits, wordedFiles, wordsOf } from '../support/words.ts';

/**
 * The words that this project used before it spoke the language of docs/glossary.md. As whole words and as parts of
 * names: `lane` finds `createLane` and `lane-id`, not `planes`. A `*` stands for the rest of a word.
 */
const gone: readonly string[] = [
  'errands',
  'rosters',
  'lanes',
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
  'FailuresBurn*',
  'LatencyBurn*',
  'KeysRunOut',
  'TokenNearExpiry',
  'CountersignGatewayRejects',
  'PolicyRefusals',
  'VersionsDiffer',
];

/** Words still to go, with how often they are there. The number may only become smaller; at 0 a word is `gone`. */
const pending: Readonly<Record<string, number>> = {
  'lets go': 1,
  'keys asked for': 1,
  crossing: 11,
  crossings: 2,
  errand: 46,
  roster: 4,
  passage: 16,
  passages: 5,
  lane: 7,
  wish: 23,
  shelves: 9,
  sighting: 35,
  sightings: 49,
  asker: 7,
  vitals: 4,
  'under way': 62,
  'by how they were had': 3,
  nobody: 68,
  somebody: 34,
  whoever: 22,
  told: 123,
  tell: 51,
  tells: 43,
  'let go': 61,
  'of its own': 50,
  'of their own': 6,
  stand: 35,
  stands: 59,
  stood: 1,
  'goes on': 18,
  'go on': 17,
  taken: 115,
  asked: 140,
  asks: 51,
  'hung up': 4,
  refusal: 135,
  refusals: 4,
  'would refuse': 8,
  bearable: 1,
  mended: 6,
  bold: 15,
  manner: 16,
  vain: 12,
  fruitless: 23,
  meter: 84,
  exchange: 225,
  exchanges: 145,
  reply: 541,
  replies: 77,
  answer: 544,
  answers: 135,
  'operations port': 11,
  'report mode': 6,
  'Simulator-Invented': 1,
  'a defect': 30,
  'throw away': 9,
  spelt: 5,
  'beyond this machine': 12,
  hundredth: 2,
  'requests a second': 5,
  door: 1,
  doors: 1,
  licence: 1,
  'recognis*': 5,
  'normalis*': 6,
  'initialis*': 2,
  'uninitialis*': 3,
  'serialis*': 6,
  colour: 25,
};

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

  it.each(Object.entries(pending))('%s, at most %d times', (word, most) => {
    const found = hits(files, word);
    const count = found.reduce((sum, hit) => sum + hit.count, 0);
    expect(count > most ? [`now ${count}`, ...found.map(inWords)] : []).toEqual([]);
  });

  it('are each listed once', () => {
    const listed = [...gone, ...Object.keys(pending)];
    expect(listed.filter((word, index) => listed.indexOf(word) !== index)).toEqual([]);
  });
});

function inWords({ path, count }: Hit): string {
  return `${path}: ${count}`;
}
