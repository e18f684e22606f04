import { describe, expect, it } from '@jest/globals';
import { statusLines } from '../../../../src/cli/status/render.ts';
import { type Status, statusSchema } from '../../../../src/observability/status/schema.ts';
import { sampleStatus } from '../../../support/sample-status.ts';
import { crowdedStatus, emptyStatus } from '../../../support/status.ts';

const origin = 'http://127.0.0.1:9090';
const linesOf = (status: Status, width = 100): string[] => statusLines(status, origin, width);

const payment = (requestId: string) => ({
  at: '2026-11-22T07:59:00.000Z',
  requestId,
  caller: 'billing',
  environment: 'sandbox',
  operation: 'transfer',
  login: null,
  orderId: 'invoice-1',
  statusPath: '/sandbox/gw/api/v4/status/1234',
  outcome: 'unknown' as const,
});

describe('the status in a terminal', () => {
  it('is made from a valid status', () => {
    expect(statusSchema.safeParse(sampleStatus).success).toBe(true);
  });

  it('has the findings and the keys, and says where the rest is', () => {
    const findings = [
      {
        severity: 'bad',
        code: 'draining',
        environment: null,
        login: null,
        caller: null,
        summary: 'Shutting down',
        advice: 'Requests in flight are finished.',
        runbookSection: '#shutting-down',
        payments: Array.from({ length: 12 }, (_, index) => payment(`id-${index}`)),
      },
    ] as const;
    const status = { ...sampleStatus, findings: [...findings], well: false };
    expect(linesOf(status)).toEqual([
      `Ready, not well: ${origin} at 2026-11-22T08:00:00.000Z, version 0.1.0`,
      '  BAD  Shutting down. Requests in flight are finished. https://wiki.example/runbook#shutting-down',
      ...Array.from(
        { length: 10 },
        (_, index) =>
          `       2026-11-22T07:59:00.000Z transfer order invoice-1 of billing, login -, request id-${index}`,
      ),
      '       and 2 more payments: see --json',
      '',
      'Keys in use',
      '  Login         Kind         Version    State                    Age      Fingerprint',
      '  sandbox/acme  RSA key      version 8  Waiting for the gateway  5 min    8888888888888888',
      '  sandbox/acme  RSA key      version 7  In use                   31 days  7777777777777777',
      '  sandbox/beta  Control key  version 2  Unusable                 -        -',
      '',
      `Environments, callers, failed requests, certificates: ${origin}/ in a browser, or --json`,
    ]);
    const calm = { ...emptyStatus(), keys: { total: 0, list: [] } };
    expect(linesOf(calm).slice(0, 3)).toEqual([
      `Ready: ${origin} at ${emptyStatus().at}, version 0.1.0`,
      '',
      'Keys in use: none',
    ]);
    const health = { ready: false, reasons: ['draining' as const], warnings: [] };
    expect(linesOf({ ...calm, health })[0]).toMatch(/^Not ready: /);
  });

  it('has ten versions, those that need attention first', () => {
    const lines = linesOf(crowdedStatus(), 120);
    expect(lines.join('\n')).toMatch(
      /^Keys in use \(10 of 2\d\d versions, what needs attention is first\)$/m,
    );
    const states = lines
      .filter((line) => /^  \S+\/\S+ {2,}(RSA|Control) key/.test(line))
      .map((line) => line.trim().split(/ {2,}/)[3]);
    expect(states.filter((one) => one !== 'In use').slice(0, 5)).toEqual([
      'Rejected by the gateway',
      'Replaced',
      'Waiting for the gateway',
      'Replaced',
      'Waiting for the gateway',
    ]);
    expect(states).toHaveLength(10);
  });

  it('names a section of the runbook only where that is a link', () => {
    expect(linesOf(sampleStatus).join('\n')).toContain(
      'https://wiki.example/runbook#countersignkeysourcedown',
    );
    expect(linesOf({ ...sampleStatus, runbookUrl: null }).join('\n')).not.toContain('#');
  });

  it.each([80, 100, 200])('fits into %d columns, with whole request IDs', (width) => {
    const requestId = '6d0b1a9c-52a6-4d1b-a7d8-0c8f9a4b2f11';
    const findings = sampleStatus.findings.map((one) => ({ ...one, payments: [payment(requestId)] }));
    const lines = linesOf({ ...sampleStatus, runbookUrl: null, findings }, width).slice(1, -3);
    expect(lines.every(({ length }) => length <= width)).toBe(true);
    expect(lines.filter((line) => line.includes(requestId))).toHaveLength(findings.length);
  });

  it('never gives a terminal anything but plain ASCII, and no additional line', () => {
    const evil = '\u001b]0;owned\u0007\u009b31m\n\u202eReady';
    const hostile: unknown = JSON.parse(JSON.stringify(sampleStatus), (name, value: unknown) =>
      typeof value === 'string' && !['at', 'state', 'createdAt'].includes(name) ? evil : value,
    );
    const shown = linesOf({ ...sampleStatus, ...Object(hostile) }).join('');
    expect(shown).toMatch(/^[ -~]*$/);
    expect(shown).toContain('?]0;owned');
  });
});
