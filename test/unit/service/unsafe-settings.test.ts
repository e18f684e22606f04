import { describe, expect, it } from '@jest/globals';
import { unsafeSettings, unusedProxyVariables } from '../../../src/service/start-checks.ts';

function problems(variables: Readonly<Record<string, string>>, execArgv: readonly string[] = []): string[] {
  return unsafeSettings((name) => new Map(Object.entries(variables)).get(name), execArgv);
}

it.each([
  [{ NODE_TLS_REJECT_UNAUTHORIZED: '0' }, 1],
  [{ NODE_TLS_REJECT_UNAUTHORIZED: '1' }, 0],
  [{ NODE_DEBUG: 'http' }, 1],
  [{ NODE_DEBUG: '' }, 0],
  [{ NODE_DEBUG_NATIVE: 'TLS' }, 1],
  [{ DEBUG: 'node-vault' }, 1],
  [{ DEBUG: '' }, 0],
  [{ NODE_OPTIONS: '--max-old-space-size=256 --disable-sigusr1' }, 0],
  [{ NODE_OPTIONS: '--report-on-signal --inspect=0.0.0.0:9229' }, 2],
  [{}, 0],
])('the settings %j are unsafe in %d ways', (settings, count) => {
  expect(problems(settings)).toHaveLength(count);
});

describe.each([
  '--inspect',
  '--inspect-brk=0.0.0.0:9229',
  '--inspect-wait',
  '--report-on-signal',
  '--report_on_signal',
  '--report-on-fatalerror',
  '--report-uncaught-exception',
  '--heapsnapshot-signal=SIGUSR2',
  '--heapsnapshot-near-heap-limit=1',
  '--heap-prof',
  '--cpu-prof',
  '--abort-on-uncaught-exception',
  '--tls-keylog=/tmp/keys',
  '--trace-tls',
  '--unhandled-rejections=warn',
  '--insecure-http-parser',
  '--security-revert=CVE-2023-46809',
  '--build-snapshot',
  '--experimental-config-file=node.config.json',
  '--experimental-default-config-file',
])('the option %s', (option) => {
  it('is unsafe on the command line', () => {
    expect(problems({}, ['--import', 'x', option])).toEqual([
      expect.stringMatching(/Remove it from the command line/),
    ]);
  });

  it('is unsafe in NODE_OPTIONS, quoted or not', () => {
    const remove = [expect.stringMatching(/Remove it from NODE_OPTIONS/)];
    expect(problems({ NODE_OPTIONS: `--max-old-space-size=256 ${option}` })).toEqual(remove);
    expect(problems({ NODE_OPTIONS: `"${option}"` })).toEqual(remove);
  });
});

it.each([
  '--no-inspect',
  '--disable-sigusr1',
  '--report-compact',
  '--experimental-vm-modules',
  '--secure-heap=4096',
])('the option %s is safe', (option) => {
  expect(problems({ NODE_OPTIONS: option }, [option])).toEqual([]);
});

it.each([
  [
    { HTTPS_PROXY: 'http://proxy:3128', all_proxy: 'socks5://proxy', NO_PROXY: '*' },
    ['HTTPS_PROXY', 'all_proxy'],
  ],
  [{ https_proxy: '', PATH: '/bin' }, []],
])('of the variables %j, %j are for a proxy that is not used', (variables, names) => {
  const values = new Map<string, string>(Object.entries(variables));
  expect(unusedProxyVariables((name) => values.get(name))).toEqual(names);
});
