import { globSync, readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { status } from '../../src/cli/status/status.ts';
import type { Status } from '../../src/observability/status/schema.ts';
import { runCommandHere } from '../support/cli.ts';
import { harness } from '../support/harness.ts';
import { gatewayIncidents, type Incident, outputIncidents, vaultIncidents } from '../support/incidents.ts';
import { anchorOf, runbookSections } from '../support/runbook.ts';
import { until } from '../support/until.ts';

const start = harness(afterAll);

const textOf = (page: string): string =>
  page
    .replace(/<style>[^]*?<\/style>/g, '')
    .replaceAll(/<[^>]*>/g, '')
    .replaceAll(/&#(\d+);/g, (_all, code: string) => String.fromCharCode(Number(code)))
    .replaceAll('&quot;', '"')
    .replaceAll(/\s+/g, ' ');

type Findings = Status['findings'];

/** Those of this incident. */
function ofIncident(findings: Findings, { code, cause }: Incident): Findings {
  return findings.filter((one) => one.code === code && cause.test(`${one.summary}. ${one.advice}`));
}

const found = async (incident: Incident): Promise<Findings> =>
  ofIncident((await incident.process.instanceStatus()).findings, incident);

/** Until the findings are there, or gone, with requests in between. */
async function untilFound(incident: Incident, there: boolean, seconds: number): Promise<void> {
  const what = `${incident.name} is ${there ? 'found' : 'gone'}`;
  const holds = async (): Promise<boolean> => {
    await incident.traffic();
    return (await found(incident)).length > 0 === there;
  };
  await until(holds, what, seconds);
}

/** JSON, terminal and page say what an incident is, and what to do. All incidents of a process are read at once. */
async function expectShown(process: Incident['process'], incidents: readonly Incident[]): Promise<void> {
  const { out } = await runCommandHere(status, '--url', process.adminUrl);
  const page = textOf(await (await fetch(`${process.adminUrl}/`)).text());
  const { findings } = await process.instanceStatus();
  const json = findings.map(({ summary, advice }) => `${summary}. ${advice}`).join(' ');
  const anchors = [...runbookSections().keys()].map(anchorOf);
  for (const incident of incidents) {
    const [finding] = ofIncident(findings, incident);
    expect(finding?.advice).toMatch(incident.remedy);
    expect(anchors).toContain(finding?.runbookSection);
    for (const text of [json, out.replaceAll(/\s+/g, ' '), page]) {
      expect(text).toMatch(incident.cause);
      expect(text).toMatch(incident.remedy);
    }
    for (const text of [JSON.stringify(findings), out, page]) expect(text).toContain(incident.shows ?? '');
  }
}

function expectAlert({ alert }: Incident): void {
  if (alert === undefined) return;
  const rules = globSync('deploy/prometheus/*.rules.yaml').map((file) => readFileSync(file, 'utf8'));
  expect([...rules.join().matchAll(/- alert: (\w+)/g)].map(([, name]) => name)).toContain(alert);
  expect([...runbookSections().keys()]).toContain(alert);
}

const calm = async ({ process }: Incident): Promise<void> => {
  const { well, findings } = await process.instanceStatus();
  expect([well, findings]).toEqual([true, []]);
};

describe('incidents of the gateway, of keys and of the configuration', () => {
  let all: Incident[];
  beforeAll(async () => {
    all = [...(await gatewayIncidents(start)), ...(await outputIncidents(start))];
    await Promise.all(all.map(({ traffic }) => traffic()));
  }, 120_000);

  it('are not found in a calm process', async () => {
    for (const incident of all) await calm(incident);
  });

  it('are found, with cause and remedy, in JSON, terminal and page', async () => {
    for (const { begin } of all) await begin();
    await Promise.all(all.map((incident) => untilFound(incident, true, 60)));
    for (const [process, incidents] of Map.groupBy(all, (one) => one.process))
      await expectShown(process, incidents);
  }, 180_000);

  it('are gone within 60 s of their end, except payments with an unknown outcome', async () => {
    for (const { end } of all) await end();
    const ended = performance.now();
    const gone = all.filter(({ code }) => code !== 'outcome-unknown');
    const seconds = await Promise.all(
      gone.map(async (incident) => {
        await untilFound(incident, false, 90);
        return [incident.name, (performance.now() - ended) / 1000] as const;
      }),
    );
    expect(seconds.filter(([, one]) => one > 62)).toEqual([]);
    const payments = all.filter(({ code }) => code === 'outcome-unknown');
    for (const incident of payments) expect(await found(incident)).toHaveLength(1);
  }, 180_000);

  it('have an alert, with a section of the runbook', () => {
    for (const incident of all) expectAlert(incident);
  });

  it('make the line about a key that vanished a warning', () => {
    const [first] = all;
    expect(first?.process.logLines('key missing in the key source')).toContainEqual(
      expect.objectContaining({ level: 'warn', environment: 'kind', login: 'acme', kind: 'private_key' }),
    );
  });
});

it('incidents of Vault are found and gone, with cause and remedy', async () => {
  const incidents = await vaultIncidents(start);
  for (const incident of incidents) {
    await incident.traffic();
    await calm(incident);
    await incident.begin();
    await untilFound(incident, true, 30);
    await expectShown(incident.process, [incident]);
    await incident.end();
    await untilFound(incident, false, 62);
    expectAlert(incident);
  }
}, 240_000);
