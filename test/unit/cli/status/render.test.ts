import { describe, expect, it } from '@jest/globals';
import { statusLines } from '../../../../src/cli/status/render.ts';
import { withFindings } from '../../../../src/observability/status/findings.ts';
import { type Status, statusSchema } from '../../../../src/observability/status/schema.ts';
import { sampleStatus } from '../../../support/sample-status.ts';
import { ago, emptyStatus, keyStatus, keyVersion, uncertainPayment } from '../../../support/status.ts';

const origin = 'http://127.0.0.1:9090';
const lines = statusLines(sampleStatus, { origin, failures: 10, width: 100 });

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
    const begins = (status: Status): string[] =>
      statusLines(status, { origin, failures: 1, width: 100 }).slice(0, 4);
    expect(begins(withFindings({ ...emptyStatus(), health }))).toEqual([
      `NOT READY: ${origin} at ${emptyStatus().at}`,
      '  BAD   Shutting down. Requests in flight are finished; new ones belong to another instance.',
      '        (runbook #shutting-down)',
      '  warn  The log cannot be written, because standard output accepts no lines. Requests are processed.',
    ]);
    expect(begins(emptyStatus()).slice(0, 2)).toEqual([`Ready: ${origin} at ${emptyStatus().at}`, '']);
    expect(lines[0]).toBe(`Ready, NOT WELL: ${origin} at 2026-11-22T08:00:00.000Z`);
  });

  it('has the environments, with a dash for what is not known', () => {
    expect(section('Environments').slice(2)).toEqual([
      ['sandbox', 'sandbox.gateway.example', '3 of 64', '12', '4%', '2.5%', '4.2 ms', '1.3 s', '-1.5 s'],
      ['production', 'gateway.example', '0 of 64', '0', '-', '-', '-', '-', '-'],
    ]);
  });

  it('has every version of a key with its state', () => {
    const [title, head, ...rows] = section('Keys');
    expect(title).toEqual(['Keys (the last used 2 of 3)']);
    expect(head).toEqual(['LOGIN', 'KIND', 'VERSION', 'STATE', 'AGE', 'FINGERPRINT', 'NOTES']);
    expect(rows.slice(0, 3)).toEqual([
      ['sandbox/acme', 'private_key', '8', 'waiting', '5 min', '8'.repeat(16), 'read 30 s ago, next in'],
      ['25 s'],
      ['7', 'in use', '31 days', '7'.repeat(16)],
    ]);
    expect(rows.slice(3).flat().join(' ')).toBe(
      'sandbox/beta control_key 2 UNUSABLE - - the control key is empty; NO USABLE VERSION; STALE for 59 min; ' +
        'key read failed: Vault denied permission (403); read 1 h ago, next with a request',
    );
  });

  it('has a key that the key source has no longer, with or without versions, and the name of one in Transit', () => {
    const missingSince = ago(60);
    const transit = keyVersion(3, { transitKey: 'acme:3', state: 'waiting' });
    const list = [
      keyStatus({ versions: [], signingVersion: null, missingSince }),
      keyStatus({ versions: [transit], missingSince, staleSince: ago(120) }),
    ];
    const status = { ...emptyStatus(), keys: { total: 2, list } };
    const rows = section('Keys', statusLines(status, { origin, failures: 0, width: 200 })).slice(2);
    const missing = 'MISSING in the key source for 1 min';
    expect(section('Keys', statusLines(status, { origin, failures: 0, width: 200 }))[0]).toEqual(['Keys']);
    expect(rows).toEqual([
      ['production/acme', 'control_key', '3', 'MISSING', '-', '-', missing],
      [
        'production/acme',
        'control_key',
        '3',
        'waiting',
        '40 days',
        '-',
        `in Vault (Transit key acme:3); ${missing}; STALE for 2 min; read 12 s ago, next in 44 s`,
      ],
    ]);
  });

  it('has ten payments of a finding, and the number of the others', () => {
    const of = (length: number): string => {
      const payments = Array.from({ length }, (_, index) =>
        uncertainPayment({ at: '2026-11-22T14:03:03.000Z', requestId: `id-${index}.` }),
      );
      const findings = sampleStatus.findings.slice(0, 1).map((one) => ({ ...one, payments }));
      return statusLines({ ...emptyStatus(), findings }, { origin, failures: 0, width: 100 }).join('\n');
    };
    expect(of(10)).toMatch(
      / 2026-11-22T14:03:03\.000Z transfer order order-7 of checkout, login acme, request\s+id-9\.\n\n/,
    );
    expect(of(12)).toMatch(/id-9\.\n +and 2 more payments: see --json\n\n/);
  });

  it.each([
    [{ state: null }, 'vault, not read yet'],
    [{ state: 'up', since: ago(60) }, 'vault, up for 1 min'],
    [{ state: 'denied', deniedLogins: 2, since: ago(60) }, 'vault, DENIES 2 logins for 1 min'],
    [{ state: 'down', deniedLogins: 2, since: ago(60) }, 'vault, DOWN for 1 min'],
  ] as const)('has the state of the key source: %o', (fields, line) => {
    const keySource = { ...emptyStatus().keySource, type: 'vault', ...fields } as const;
    const shown = statusLines({ ...emptyStatus(), keySource }, { origin, failures: 0, width: 100 });
    expect(shown).toContain(`Key source:     ${line}`);
    expect(shown.at(-1)).toMatch(/^Configuration: /);
  });

  it('has the callers', () => {
    expect(section('Callers').slice(2)).toEqual([
      ['billing', '1,234', '5', '3 s ago'],
      ['reports', '0', '0', 'never'],
    ]);
  });

  describe('has the failed requests', () => {
    const { failures: list } = sampleStatus;

    it('equal ones in one line, with their number and the ID of the last', () => {
      expect(section('Failed requests').slice(0, 6)).toEqual([
        ['Failed requests'],
        ['AGE', 'COUNT', 'STATUS', 'OUTCOME', 'OPERATION', 'LOGIN', 'CALLER', 'CAUSE, LAST REQUEST ID'],
        ['1 min', '9', '403', 'answered', 'sandbox/transfer', 'acme', 'billing', 'current-key (runbook'],
        ['#countersign403) request-0'],
        ['2 min', '1', 'none', 'answered', 'sandbox/transfer', 'acme', 'billing', 'current-key (runbook'],
        ['#countersign403) request-1'],
      ]);
      expect(
        section('Failed requests').map(([age, count, , , operation]) => [age, count, operation]),
      ).toEqual(
        expect.arrayContaining([
          ['11 min', '1', 'sandbox/-'],
          ['12 min', '1', '-'],
        ]),
      );
    });

    it('as many lines as wanted', () => {
      const shown = (failures: number) => statusLines(sampleStatus, { origin, failures, width: 100 });
      expect(section('Failed requests', shown(2))[0]).toEqual([
        'Failed requests (12 in 4 lines, 2 of them shown; --failures N shows more)',
      ]);
      expect(shown(2).join()).toContain('request-1');
      expect(shown(2).join()).not.toContain('request-10');
      expect(section('Failed requests', shown(4))[0]).toEqual(['Failed requests']);
      expect(shown(0)).toContain('Failed requests: 12, not shown');
    });

    it.each([48, 80, 100, 132, 200])('with whole request IDs at %d columns', (width) => {
      const requestId = '6d0b1a9c-52a6-4d1b-a7d8-0c8f9a4b2f11';
      const [first] = list;
      if (first === undefined) throw new Error('no failure');
      const operation = 'a-long-operation-of-the-gateway';
      const failures = Array.from({ length: 100 }, () => ({ ...first, operation, requestId }));
      const shown = statusLines({ ...sampleStatus, failures }, { origin, failures: 10, width });
      expect(shown.filter((line) => line.slice(0, width).includes(requestId))).toHaveLength(1);
      expect(shown.join()).toMatch(/ 100 +403 /);
    });
  });

  it('has certificates, key source, process and configuration', () => {
    expect(section('Certificates').slice(2)).toEqual([
      ['proxy', '-', 'in 7 days', '2026-01-01T00:00:00.000Z to 2026-11-29T08:00:00.000Z'],
    ]);
    expect(lines.slice(-5)).toEqual([
      'Key source:     vault, DOWN for 2 min; connection refused; token expires in 30 min',
      'Process:        version 0.1.0, Node 26.10.0, up for 24 h',
      `Configuration:  loaded 1 h ago, SHA-256 ${'c'.repeat(64)}`,
      '  The last reload failed or requires a restart: read the log, correct the file, then reload or restart.',
      'Runbook:        https://wiki.example/runbook',
    ]);
  });

  it('has the uptime of the instance also after its wall clock was set', () => {
    const process = { ...sampleStatus.process, startedAt: '1970-01-01T00:00:05.000Z', uptime: 125 };
    expect(
      statusLines({ ...sampleStatus, process }, { origin, failures: 0, width: 100 }).join('\n'),
    ).toContain('up for 2 min');
  });

  it('says that a section is empty', () => {
    const empty = {
      ...sampleStatus,
      keys: { total: 0, list: [] },
      callers: [],
      failures: [],
      certificates: [],
    };
    const text = statusLines(empty, { origin, failures: 10, width: 100 }).join('\n');
    for (const line of ['Keys: none in use', 'Callers (since the start): none', 'Failed requests: none']) {
      expect(text).toContain(`\n${line}\n`);
    }
  });

  it('gives an expired certificate an age', () => {
    const [certificate] = sampleStatus.certificates;
    const until = '2026-11-20T08:00:00.000Z';
    const certificates = certificate === undefined ? [] : [{ ...certificate, until }];
    const expired = statusLines({ ...sampleStatus, certificates }, { origin, failures: 0, width: 100 });
    expect(section('Certificates', expired)[2]?.[2]).toBe('2 days ago');
  });

  it('never gives a terminal anything but plain ASCII, and no additional line', () => {
    const evil = '\u001b]0;owned\u0007\u009b31m\n\u202eReady';
    const hostile: unknown = JSON.parse(JSON.stringify(sampleStatus), (name, value: unknown) =>
      typeof value === 'string' && !['at', 'state', 'type', 'from', 'until'].includes(name) ? evil : value,
    );
    const shown = statusLines({ ...sampleStatus, ...Object(hostile) }, { origin, failures: 10, width: 100 });
    expect(shown.join('')).toMatch(/^[ -~]*$/);
    expect(shown.join('')).toContain('?]0;owned');
  });
});
