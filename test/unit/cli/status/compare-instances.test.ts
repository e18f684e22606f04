import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { compareInstances, type InstanceReading } from '../../../../src/cli/status/compare-instances.ts';
import { allLines } from '../../../../src/cli/status/render.ts';
import { withFindings } from '../../../../src/observability/status/findings.ts';
import type { StatusFacts } from '../../../../src/observability/status/schema.ts';
import { emptyStatus, environmentStatus, keyStatus, keyVersion } from '../../../support/status.ts';

const at = emptyStatus().at;
const ago = (seconds: number): string => new Date(Date.parse(at) - seconds * 1000).toISOString();

function instance(address: string, facts: Partial<StatusFacts> = {}, clockAhead = 0): InstanceReading {
  return { address, status: withFindings({ ...emptyStatus(), ...facts }), clockAhead, uncertainty: 0.1 };
}

const withKey = (address: string, ...versions: readonly ReturnType<typeof keyVersion>[]): InstanceReading =>
  instance(address, {
    keys: {
      total: 1,
      list: [keyStatus({ versions: [...versions], signingVersion: versions.at(-1)?.version ?? null })],
    },
  });

const codesOf = (...readings: readonly InstanceReading[]): string[] =>
  compareInstances(readings, at).findings.map(({ severity, code }) => `${severity} ${code}`);

describe('all instances', () => {
  it('are well if each is, and none differs', () => {
    const all = compareInstances([instance('a'), instance('b')], at);
    expect(all).toMatchObject({ at, well: true, findings: [], keys: [] });
    expect(allLines(all, 100)[0]).toBe(`Well: 2 of 2 instances ready at ${at}`);
  });

  it('are not well if one gives no status, and the numbers of the others stay', () => {
    const all = compareInstances([instance('a'), { address: 'b', problem: 'refused the connection.' }], at);
    expect(all).toMatchObject({
      well: false,
      findings: [{ severity: 'bad', code: 'instance-without-status', instances: ['b'] }],
      instances: [
        { address: 'a', problem: null, ready: true },
        { address: 'b', problem: 'refused the connection.', ready: null, well: null, version: null },
      ],
    });
    expect(allLines(all, 100).join('\n')).toMatch(
      /^NOT WELL: 1 of 2 instances ready [^]*\n {2}b +- +NO STATUS/,
    );
  });

  it('are not well if one is not ready, or ready but not well', () => {
    const health = { ready: false, reasons: ['draining' as const], warnings: [] };
    const audit = { up: false, problem: 'ENOSPC' };
    const down = { type: 'vault', state: 'down', problem: 'sealed' } as const;
    const sick = { keySource: { ...emptyStatus().keySource, ...down, since: ago(60) } };
    expect(codesOf(instance('a', { health }), instance('b'))).toEqual(['bad instance-not-ready']);
    const all = compareInstances([instance('a', sick), instance('b', sick), instance('c', { audit })], at);
    expect(all.well).toBe(all.instances.every(({ well }) => well === true));
    const bad = all.findings.filter(({ code }) => code === 'instance-not-well');
    // One finding for each problem, not for each instance.
    expect(bad.flatMap(({ instances }) => instances)).toEqual(
      all.instances.filter(({ well }) => well === false).map(({ address }) => address),
    );
    expect(new Set(bad.map(({ summary }) => summary)).size).toBe(bad.length);
  });

  it('have the requests of all environments, and the failed share of these', () => {
    const environments = [
      environmentStatus({ requestsPerSecond: 9, failedShare: 0.2 }),
      environmentStatus({ name: 'production', requestsPerSecond: 1, failedShare: 1 }),
      environmentStatus({ name: 'idle', requestsPerSecond: 0, failedShare: null }),
    ];
    const idle = [environmentStatus({ requestsPerSecond: 0, failedShare: null })];
    const all = compareInstances(
      [instance('a', { environments }), instance('b', { environments: idle })],
      at,
    );
    expect(all.instances).toMatchObject([
      { requestsPerSecond: 10, failedShare: expect.closeTo(0.28) },
      { requestsPerSecond: 0, failedShare: null },
    ]);
  });

  it('differ if one has another version or another configuration file: the minority is named', () => {
    const process = { ...emptyStatus().process, version: '9.9.9' };
    const config = { ...emptyStatus().config, digest: 'f'.repeat(64) };
    const all = compareInstances([instance('a'), instance('b', { process }), instance('c', { config })], at);
    expect(all.findings).toEqual([
      expect.objectContaining({ severity: 'warn', code: 'mixed-versions', instances: ['b'] }),
      expect.objectContaining({ severity: 'warn', code: 'configurations-differ', instances: ['c'] }),
    ]);
    expect(all.findings[0]?.summary).toMatch(/: .+ on 2, 9\.9\.9 on 1$/);
    expect(all.well).toBe(true);
  });

  it('differ if the clock of one does from that of most, by more than the network explains', () => {
    expect(codesOf(instance('a'), instance('b'), instance('c', {}, 5.05))).toEqual([]);
    const all = compareInstances([instance('a', {}, 100), instance('b', {}, 100), instance('c', {}, 94)], at);
    expect(all.findings).toEqual([expect.objectContaining({ code: 'clocks-differ', instances: ['c'] })]);
    expect(all.findings[0]?.summary).toBe('The clock of c differs from that of most instances by -6.0 s');
  });
});

describe('the keys of all instances', () => {
  it('say which version each has read, signs with, and saw accepted or rejected', () => {
    const all = compareInstances(
      [
        withKey('a', keyVersion(12, { verdict: 'accepted' })),
        withKey('b', keyVersion(12, { verdict: 'rejected' }), keyVersion(11, { verdict: 'accepted' })),
        withKey('c', keyVersion(11)),
        instance('d'),
      ],
      at,
    );
    expect(all.keys).toMatchObject([
      {
        usedOn: ['a', 'b', 'c'],
        versions: [
          { version: 12, readBy: ['a', 'b'], signsOn: ['a'], acceptedOn: ['a'], rejectedOn: ['b'] },
          { version: 11, readBy: ['b', 'c'], signsOn: ['b', 'c'], acceptedOn: ['b'], rejectedOn: [] },
        ],
      },
    ]);
    expect(all.findings).toContainEqual({
      severity: 'info',
      code: 'signing-differs',
      summary:
        'Instances sign with different versions of the control_key of production/acme: version 12 on 1, version 11 on 2',
      advice: expect.stringMatching(/^Normal during a rotation: /),
      instances: ['b', 'c'],
    });
    const lines = allLines(all, 120).map((line) => line.trim().replaceAll(/ +/g, ' '));
    expect(lines.join(' ')).toContain(
      'production/acme control_key 12 40 days 2 of 4 1 1 1 not read by c; not in use on 1 11 40 days 2 of 4 2 1 0',
    );
  });

  it('are shown as in docs/status.md', () => {
    const environments = [environmentStatus({ requestsPerSecond: 12.4, failedShare: 0 })];
    const [next, last] = [
      { createdAt: ago(130), fingerprint: null },
      { createdAt: ago(40 * 86_400), verdict: 'accepted' },
    ] as const;
    const using = (address: string, signingVersion: number, ...versions: ReturnType<typeof keyVersion>[]) =>
      instance(address, {
        environments,
        keys: { total: 1, list: [keyStatus({ versions, signingVersion, newestVersion: signingVersion })] },
      });
    const accepted = () => [
      keyVersion(12, { ...next, verdict: 'accepted' }),
      keyVersion(11, { ...last, verdict: null, state: 'replaced' }),
    ];
    const waiting = () => [
      keyVersion(12, { ...next, verdict: 'rejected', state: 'waiting' }),
      keyVersion(11, last),
    ];
    const readings = [
      using('10.0.3.7:9090', 12, ...accepted()),
      using('10.0.3.8:9090', 12, ...accepted()),
      using('10.0.3.9:9090', 11, ...waiting()),
      using('10.0.3.10:9090', 11, keyVersion(11, last)),
      { address: '10.0.3.11:9090', problem: 'refused the connection.' },
    ];
    const block = ['```text', ...allLines(compareInstances(readings, at), 100), '```'].join('\n');
    expect(readFileSync('docs/status.md', 'utf8')).toContain(block);
  });

  it('that one should have read by now are a finding, new ones are not', () => {
    const unknown = keyVersion(12, { createdAt: null });
    const fresh = keyVersion(12, { createdAt: ago(299) });
    const old = keyVersion(12, { createdAt: ago(301) });
    const before = keyVersion(11);
    expect(codesOf(withKey('a', fresh, before), withKey('b', before))).toEqual([]);
    expect(codesOf(withKey('a', unknown, before), withKey('b', before))).toEqual([]);
    const readings = [withKey('z', unknown, before), withKey('a', old, before), withKey('b', before)];
    const all = compareInstances([...readings, instance('c')], at);
    expect(all.findings).toEqual([
      expect.objectContaining({
        severity: 'warn',
        code: 'key-not-read',
        instances: ['b'],
        summary:
          '1 instance did not read version 12 of the control_key of production/acme, which is 5 min old',
      }),
    ]);
  });

  it('that a status does not list are not said to be unused', () => {
    const partial = instance('b', { keys: { total: 2, list: [keyStatus({ login: 'other' })] } });
    const all = compareInstances([withKey('a', keyVersion(3)), partial], at);
    expect(all.findings).toEqual([
      expect.objectContaining({ severity: 'info', code: 'keys-not-listed', instances: ['b'] }),
    ]);
    const lines = allLines(all, 120).join('\n');
    expect(lines).toMatch(/production\/other .* 1 of 2 .*not in use on 1/);
    expect(lines).toMatch(/production\/acme .* 1 of 2 +1 +0 +0$/m);
  });

  it.each([
    ['have not read the newest version', [3], 3],
    ['sign with another version', [4, 3], 4],
  ])('come first where some %s', (_, others, signingVersion) => {
    const same = keyStatus({ login: 'same', versions: [keyVersion(3)] });
    const keys = (versions: readonly number[], signs: number) => ({
      keys: {
        total: 2,
        list: [
          same,
          keyStatus({ versions: versions.map((version) => keyVersion(version)), signingVersion: signs }),
        ],
      },
    });
    const all = compareInstances(
      [instance('a', keys([4, 3], 3)), instance('b', keys(others, signingVersion))],
      at,
    );
    expect(all.keys.map(({ login }) => login)).toEqual(['acme', 'same']);
    expect(allLines(all, 120).join('\n')).toContain('\nKeys\n');
  });

  it('give a terminal nothing but plain ASCII', () => {
    const keys = { total: 1, list: [keyStatus({ login: '\u001b]0;owned\u0007\u202e' })] };
    const lines = allLines(compareInstances([instance('a', { keys })], at), 100).join('');
    expect(lines).toMatch(/^[ -~]*$/);
    expect(lines).toContain('?]0;owned??');
  });

  it('are at most fifty, and as many addresses as five in a list', () => {
    const using = (address: string, ...versions: number[]) =>
      instance(address, {
        keys: {
          total: 51,
          list: Array.from({ length: 51 }, (_, index) =>
            keyStatus({ login: `login-${index}`, versions: versions.map((one) => keyVersion(one)) }),
          ),
        },
      });
    const readings = Array.from('abcdefg', (address) => using(address, 3)).concat(using('z', 4, 3));
    const lines = allLines(compareInstances(readings, at), 200).join('\n');
    expect(lines).toContain('\nKeys (50 of 51; --json has all)\n');
    expect(lines).toContain('login-49 ');
    expect(lines).not.toContain('login-50 ');
    expect(lines).toContain('not read by a, b, c, d, e, 2 more\n');
  });

  it('that are in the key source no more are a row too', () => {
    const gone = keyStatus({ versions: [], signingVersion: null, missingSince: ago(60) });
    const keys = { total: 1, list: [gone] };
    const all = compareInstances([instance('a', { keys }), instance('b', { keys })], at);
    expect(allLines(all, 120).at(-1)?.replaceAll(/ +/g, ' ').trim()).toBe(
      'production/acme control_key - - 0 of 2 0 0 0 MISSING in the key source',
    );
  });
});
