import { describe, expect, it } from '@jest/globals';
import { statusLines } from '../../../../src/cli/status/render.ts';
import { withFindings } from '../../../../src/observability/status/findings.ts';
import { type Status, statusSchema } from '../../../../src/observability/status/schema.ts';
import { sampleStatus } from '../../../support/sample-status.ts';
import { emptyStatus } from '../../../support/status.ts';

const origin = 'http://127.0.0.1:9090';
const lines = statusLines(sampleStatus, { origin, failures: 10 });

/** The words of each line of a section; columns are two spaces apart. */
function section(title: string, of = lines): string[][] {
  const from = of.findIndex((line) => line.startsWith(title));
  const rest = of.slice(from);
  const end = rest.indexOf('');
  return rest.slice(0, end === -1 ? undefined : end).map((line) => line.trim().split(/ {2,}/));
}

describe('the status in a terminal', () => {
  it('is made from a valid status', () => {
    expect(statusSchema.safeParse(sampleStatus).success).toBe(true);
  });

  it('begins with the health, and what was found', () => {
    const health = { ready: false, reasons: ['draining' as const], warnings: ['log-stalled' as const] };
    const begins = (status: Status): string[] => statusLines(status, { origin, failures: 1 }).slice(0, 4);
    expect(begins(withFindings({ ...emptyStatus(), health }))).toEqual([
      `NOT READY: ${origin} at ${emptyStatus().at}`,
      '  BAD   Shutting down. Requests in flight are finished; new ones belong to another instance. (runbook',
      '        #shutting-down)',
      '  warn  The log cannot be written. Requests are processed. Check where standard output goes. (runbook',
    ]);
    expect(begins(emptyStatus()).slice(0, 2)).toEqual([`Ready: ${origin} at ${emptyStatus().at}`, '']);
    expect(lines[0]).toBe(`Ready, NOT WELL: ${origin} at 2026-11-22T08:00:00.000Z`);
  });

  it('has the environments, with a dash for what is not known', () => {
    expect(section('Environments').slice(2)).toEqual([
      ['sandbox', 'sandbox.gateway.example', '3 of 64', '12.3', '2.5 %', '4.2 ms', '1.3 s', '-1.5 s'],
      ['production', 'gateway.example', '0 of 64', '0.0', '-', '-', '-', '-'],
    ]);
  });

  it('has every version of a key with its state', () => {
    const [title, head, ...rows] = section('Keys');
    expect(title).toEqual(['Keys (the last used 2 of 3)']);
    expect(head).toEqual(['LOGIN', 'KIND', 'VERSION', 'STATE', 'AGE', 'FINGERPRINT', 'NOTES']);
    expect(rows.slice(0, 2)).toEqual([
      ['sandbox/acme', 'private_key', '8', 'waiting', '5m', '8'.repeat(16), 'read 30s ago, next in 25s'],
      ['7', 'in use', '31d', '7'.repeat(16)],
    ]);
    expect(rows.slice(2).flat().join(' ')).toBe(
      'sandbox/beta control_key 2 UNUSABLE - - the control key is empty; NO USABLE VERSION; STALE for 59m; ' +
        'read 1h ago, next with the next request',
    );
  });

  it('has the callers', () => {
    expect(section('Callers').slice(2)).toEqual([
      ['billing', '1234', '5', '3s ago'],
      ['reports', '0', '0', 'never'],
    ]);
  });

  it('has as many of the last failed requests as wanted, with their IDs and the section of the runbook', () => {
    const [title, , first] = section('Failed requests');
    expect(title).toEqual(['Failed requests (the last 10 of 12; --failures N shows more)']);
    expect(first).toEqual([
      '1m',
      '403',
      'answered',
      'sandbox/transfer',
      'acme',
      'billing',
      'current-key (runbook #countersign403)',
    ]);
    expect(lines.join('\n')).toContain('request-9\n');
    expect(lines.join('\n')).not.toContain('request-10');
    const all = statusLines(sampleStatus, { origin, failures: 100 });
    const more = section('Failed requests', all);
    expect(more[0]).toEqual(['Failed requests']);
    expect(
      more.filter(([age]) => age === '11m' || age === '12m').map(([, , , operation]) => operation),
    ).toEqual(['sandbox/-', '-']);
    expect(all.join('\n')).toContain('request-11');
  });

  it('has certificates, key source, process and configuration', () => {
    expect(section('Certificates').slice(2)).toEqual([
      ['proxy', '-', 'in 7d', '2026-01-01T00:00:00.000Z to 2026-11-29T08:00:00.000Z'],
    ]);
    expect(lines.slice(-5)).toEqual([
      'Key source:     vault, DOWN for 2m; connection refused; token expires in 30m',
      'Process:        version 0.1.0, Node 26.10.0, up for 1d',
      `Configuration:  loaded 1h ago, SHA-256 ${'c'.repeat(64)}`,
      '  The last reload failed or requires a restart: read the log, correct the file, then reload or restart.',
      'Runbook:        https://wiki.example/runbook',
    ]);
  });

  it('has the uptime of the instance also after its wall clock was set', () => {
    const process = { ...sampleStatus.process, startedAt: '1970-01-01T00:00:05.000Z', uptime: 125 };
    expect(statusLines({ ...sampleStatus, process }, { origin, failures: 0 }).join('\n')).toContain(
      'up for 2m',
    );
  });

  it('says that a section is empty', () => {
    const empty = {
      ...sampleStatus,
      keys: { total: 0, list: [] },
      callers: [],
      failures: [],
      certificates: [],
    };
    const text = statusLines(empty, { origin, failures: 10 }).join('\n');
    for (const line of ['Keys: none in use', 'Callers (since the start): none', 'Failed requests: none']) {
      expect(text).toContain(`\n${line}\n`);
    }
  });

  it('gives an expired certificate an age', () => {
    const [certificate] = sampleStatus.certificates;
    const until = '2026-11-20T08:00:00.000Z';
    const certificates = certificate === undefined ? [] : [{ ...certificate, until }];
    const expired = statusLines({ ...sampleStatus, certificates }, { origin, failures: 0 });
    expect(section('Certificates', expired)[2]?.[2]).toBe('2d ago');
  });

  it('never gives a terminal anything but plain ASCII, and no additional line', () => {
    const evil = '\u001b]0;owned\u0007\u009b31m\n\u202eReady';
    const hostile: unknown = JSON.parse(JSON.stringify(sampleStatus), (name, value: unknown) =>
      typeof value === 'string' && !['at', 'state', 'type', 'from', 'until'].includes(name) ? evil : value,
    );
    const shown = statusLines({ ...sampleStatus, ...Object(hostile) }, { origin, failures: 10 });
    expect(shown.join('')).toMatch(/^[ -~]*$/);
    expect(shown.join('')).toContain('?]0;owned');
  });
});
