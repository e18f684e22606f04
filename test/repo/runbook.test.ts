import { spawnSync } from 'node:child_process';
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { stringify } from 'yaml';
import { causeSections, runbookIndex } from '../../scripts/docs/runbook-index.ts';
import { errorTable } from '../../src/errors.ts';
import { vaultErrors } from '../../src/keys/vault/errors.ts';
import { networkFailures } from '../../src/net/network-failure.ts';
import { rejections } from '../../src/request-context.ts';
import { metricLabels } from '../support/exposition.ts';
import { promtool } from '../support/promtool.ts';
import { itWith } from '../support/requires.ts';
import { anchorOf, codes, keyProblems, runbookSections, runbookText } from '../support/runbook.ts';
import { sampleLog, sampleNotes } from '../support/sample-log.ts';

const recorded = [
  ...readFileSync('deploy/prometheus/objectives.rules.yaml', 'utf8').matchAll(/record: (.*)/g),
].map(([, name = '']) => name);

const causes = [...rejections, ...networkFailures(true)];

const sections = [...runbookSections()];
const queriesIn = (text: string) => codes(text).filter((one) => /\bcountersign_|^up\{/.test(one));
const searchesIn = (text: string) => codes(text).filter((one) => one.startsWith("jq -c 'select("));
const queries = queriesIn(runbookText());
const searches = searchesIn(runbookText());
const source = globSync('src/**/*.ts')
  .map((file) => readFileSync(file, 'utf8'))
  .join('\n');

describe('the runbook', () => {
  it('begins with an index, and has the sections that it links to, and no others', () => {
    const linked = [...runbookIndex().matchAll(/^\| \[(.*?)\]\((#.*?)\)/gm)];
    expect(runbookText()).toMatch(/^# Runbook\n\n## Index\n/);
    expect(new Set(linked.map(([, heading]) => heading))).toEqual(new Set(sections.map(([one]) => one)));
    for (const [, heading = '', anchor] of linked) expect(anchor).toBe(anchorOf(heading));
  });

  it.each(causeSections())('explains %s in %s, unless `causes` of a condition has it', (cause, section) => {
    expect(runbookSections().get(section)).toContain(`\`${cause}\``);
  });

  it('links only to sections and files that exist', () => {
    const headings = [...runbookText().matchAll(/^##+ (.+)$/gm)].map(([, heading = '']) => heading);
    const vault = readFileSync('deploy/vault/README.md', 'utf8').matchAll(/^##+ (.+)$/gm);
    const ofVault = [...vault].map(([, heading = '']) => `vault/README.md${anchorOf(heading)}`);
    const others = ['prometheus/', 'grafana/', 'https://jqlang.org/', ...ofVault];
    const known = [...headings.map(anchorOf), ...others];
    for (const [, target] of runbookText().matchAll(/\]\(([^)]+)\)/g)) expect(known).toContain(target);
  });
});

describe.each(sections)('%s', (_heading, section) => {
  const parts = section.split(/^(?=- \*\*)/m).slice(1);

  it('says what you see, whether it is urgent, what to do, and when it is over, in twelve lines', () => {
    expect(parts.map((part) => /^- \*\*([^*]+)\.\*\*/.exec(part)?.[1])).toEqual([
      'What you see',
      'Is it urgent',
      'What to do',
      'When it is over',
    ]);
    expect(section.trim().split('\n').length).toBeLessThanOrEqual(12);
  });

  it('has a log search for what it is, and a query for its end', () => {
    const [see = '', , , over = ''] = parts;
    expect(searchesIn(see)).not.toEqual([]);
    expect(queriesIn(over)).not.toEqual([]);
  });
});

describe('the queries', () => {
  itWith('promtool')('parse', () => {
    const folder = mkdtempSync(join(tmpdir(), 'countersign-runbook-'));
    const file = join(folder, 'queries.rules.yaml');
    const wrapped = queries.map((expr, index) => ({ record: `runbook:query${index}`, expr }));
    writeFileSync(file, stringify({ groups: [{ name: 'runbook', rules: wrapped }] }));
    const { status, output } = promtool(['check', 'rules', file]);
    rmSync(folder, { recursive: true });
    expect(output).toContain(`${queries.length} rules found`);
    expect(status).toBe(0);
  });

  const metrics = metricLabels();

  it.each(queries)('%s names metrics, labels, reasons and causes that exist', (query) => {
    // Text in quotes is a label value.
    const bare = query.replaceAll(/"[^"]*"/g, '""');
    const names = [...bare.matchAll(/\b(?:environment:)?countersign_\w+(?::\w+)?|\bup\b/g)].map(
      ([name]) => name,
    );
    expect(names).not.toEqual([]);
    const labels = names.flatMap((name) => labelsOf(name, metrics));
    const selected = [...bare.matchAll(/\bby \(([^)]*)\)|\{([^}]*)\}/g)]
      .flatMap(([, grouping, selectors]) => (grouping ?? selectors ?? '').split(','))
      .map((part) => part.replace(/[=!~].*/, '').trim());
    expect([...labels, 'instance', 'job', 'namespace', 'release']).toEqual(expect.arrayContaining(selected));
    for (const [, name = '', operator, values = ''] of query.matchAll(
      /(reason|cause)(=~?|!~?=?)"([^"]*)"/g,
    )) {
      const known = name === 'reason' ? [...Object.keys(errorTable), 'none'] : causes;
      expect([operator, ...known]).toEqual(expect.arrayContaining(values.split('|')));
    }
  });
});

describe('the log searches', () => {
  const log = sampleLog();
  const fields = new Set(
    log
      .trim()
      .split('\n')
      .flatMap((line) => Object.keys(JSON.parse(line))),
  );

  itWith('jq').each(searches)('%s finds lines in a sample log', (search) => {
    const { status, stdout, stderr } = spawnSync('sh', ['-c', search], { input: log, encoding: 'utf8' });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout).not.toBe('');
    // Some lines, not all of them.
    expect(stdout.trim().split('\n').length).toBeLessThan(log.trim().split('\n').length);
  });

  it.each(searches)('%s names fields that the log has', (search) => {
    const bare = search.replaceAll(/"[^"]*"/g, '""');
    const shown =
      /\{([^}]*)\}/
        .exec(bare)?.[1]
        ?.split(',')
        .map((name) => name.trim()) ?? [];
    const tested = [...bare.matchAll(/\.(\w+)/g)].map(([, name = '']) => name);
    expect([...fields]).toEqual(expect.arrayContaining([...shown, ...tested]));
  });

  it.each(searches)('%s names messages and values of the code', (search) => {
    // But not the ID of a request.
    for (const [, value = ''] of search.replace(/"[\da-f-]{36}"/, '').matchAll(/"([^"]*)"/g))
      expect(source).toMatch(new RegExp(`['\`]${value}|${value}'`));
  });

  it('use messages of the code', () => {
    for (const [, message] of sampleNotes) {
      const [words = ''] = message.split(/: (?=Vault)| at \d/);
      expect(source).toContain(words);
    }
  });
});

describe('key problems', () => {
  const rows = keyProblems();

  it('link to sections', () => {
    const anchors = sections.map(([heading]) => `[${heading}](${anchorOf(heading)})`);
    for (const row of rows) expect(anchors).toContain(row.at(-1));
  });

  it('are every key and Vault error, and only messages of the code', () => {
    const parser = readFileSync('src/keys/key.ts', 'utf8');
    const ofKeys = [
      ...parser.matchAll(/['`]((?:the (?:control|private) key|the passphrase|RSA key) [^'`]*)['`]/g),
    ].map(([, text = '']) => text.replaceAll(/\$\{\w+\}/g, '…'));
    expect(ofKeys.length).toBeGreaterThan(8);
    const messages = rows.map(([message = '']) => message);
    const ofVault = Object.values(vaultErrors).map(({ text }) => text);
    expect(messages).toEqual(expect.arrayContaining([...ofKeys, ...ofVault]));
    for (const message of messages) {
      if (!ofKeys.includes(message)) expect(source).toContain(message);
    }
  });
});

/** @throws Error for an unknown metric */
function labelsOf(name: string, metrics: ReadonlyMap<string, readonly string[]>): readonly string[] {
  if (name === 'up') return [];
  if (recorded.includes(name)) return ['environment'];
  const labels = metrics.get(name);
  if (labels === undefined) throw new Error(`unknown metric ${name}`);
  return labels;
}
