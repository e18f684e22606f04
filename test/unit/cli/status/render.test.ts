import { describe, expect, it } from '@jest/globals';
import { statusLines } from '../../../../src/cli/status/render.ts';
import type { Status } from '../../../../src/observability/status/schema.ts';
import {
  ago,
  calmStatus,
  crowdedStatus,
  emptyStatus,
  fingerprint,
  keyStatus,
  keyVersion,
  troubleStatus,
  uncertainPayment,
} from '../../../support/status.ts';

const origin = 'http://127.0.0.1:9090';
const linesOf = (status: Status, width = 100): string[] => statusLines(status, origin, width);

describe('the status in a terminal', () => {
  it('has the findings and the keys, and says where the rest is', () => {
    const versions = [
      keyVersion(8, { state: 'waiting', createdAt: ago(300), fingerprint: fingerprint(8) }),
      keyVersion(7, { createdAt: null }),
    ];
    const status = calmStatus({
      uncertainPayments: Array.from({ length: 12 }, (_, index) =>
        uncertainPayment({ requestId: `id-${index}`, login: null }),
      ),
      keys: { total: 1, list: [keyStatus({ kind: 'private_key', signingVersion: 7, versions })] },
    });
    const [payment, ...findings] = status.findings;
    const lines = linesOf({ ...status, findings: payment ? [payment] : [] }, 200);
    expect(findings).toHaveLength(1);
    expect(lines).toEqual([
      `Ready, not well: ${origin} at ${ago(0)}, version 0.2.0`,
      expect.stringMatching(/^ {2}BAD {2}12 payments of production .* Query the order status of each/),
      '       again before that: `countersign status --json | countersign payments query`. https://wiki.example/countersign/runbook#countersignoutcomeunknown',
      ...Array.from(
        { length: 10 },
        (_, index) => `       ${ago(4)} transfer order order-7 of checkout, login -, request id-${index}`,
      ),
      '       and 2 more: countersign status --json',
      '',
      'Keys in use',
      '  Login            Kind     Version    State                    Age    Fingerprint',
      `  production/acme  RSA key  version 8  Waiting for the gateway  5 min  ${fingerprint(8).slice(0, 16)}`,
      '  production/acme  RSA key  version 7  In use                   -      -',
      '',
      `Environments, callers, failed requests, certificates: ${origin}/ in a browser, or --json`,
    ]);
  });

  it('is short if nothing is found and no key is in use', () => {
    const health = { ready: false, reasons: ['draining' as const], warnings: [] };
    const rest = ['', 'Keys in use: none', '', expect.anything()];
    expect(linesOf(emptyStatus())).toEqual([`Ready: ${origin} at ${ago(0)}, version 0.2.0`, ...rest]);
    expect(linesOf({ ...emptyStatus(), health })[0]).toMatch(/^Not ready: /);
  });

  it('has ten versions, those that need attention first', () => {
    const lines = linesOf(crowdedStatus(), 120);
    expect(lines).toContain('Keys in use (10 of 243 versions, what needs attention is first)');
    const states = lines.flatMap((line) => / key {2,}version \d+ {2,}(\S+)/.exec(line)?.[1] ?? []);
    expect(states).toHaveLength(10);
    expect(states.filter((one) => one !== 'In')).toEqual([
      'Rejected',
      'Replaced',
      'Waiting',
      'Replaced',
      'Waiting',
      'Waiting',
      'Replaced',
    ]);
  });

  it('names a section of the runbook where that is a link, else what its index has', () => {
    expect(linesOf(troubleStatus()).join('\n')).toContain('/runbook#countersignkeysourcedown');
    const lines = linesOf({ ...troubleStatus(), runbookUrl: null }).join('\n');
    expect(lines).not.toContain('#');
    expect(lines.replaceAll(/\s+/g, ' ')).toContain('Runbook: key-source-down');
  });

  it.each([80, 100, 200])('fits into %d columns, with whole request IDs', (width) => {
    const status = { ...troubleStatus(), runbookUrl: null };
    const lines = linesOf(status, width).slice(1, -3);
    expect(lines.filter(({ length }) => length > width)).toEqual([]);
    for (const { requestId } of status.uncertainPayments)
      expect(lines.filter((line) => line.includes(requestId))).toHaveLength(1);
  });

  it('never gives a terminal anything but plain ASCII, and no additional line', () => {
    const evil = '\u001b]0;owned\u0007\u009b31m\n\u202eReady';
    const hostile: unknown = JSON.parse(JSON.stringify(troubleStatus()), (name, value: unknown) =>
      typeof value === 'string' && !['at', 'state', 'createdAt'].includes(name) ? evil : value,
    );
    const shown = linesOf({ ...troubleStatus(), ...Object(hostile) }).join('');
    expect(shown).toMatch(/^[ -~]*$/);
    expect(shown).toContain('?]0;owned');
  });
});
