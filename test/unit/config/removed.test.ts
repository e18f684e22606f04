import { afterAll, describe, expect, it } from '@jest/globals';
import { removedOptions, withReplacement } from '../../../src/config/removed.ts';
import { run } from '../../support/cli.ts';
import { Folder } from '../../support/folder.ts';
import { minimal, problemsOf } from './checking.ts';

/** A place for each removed option. */
const file = () => ({
  proxy: {},
  environments: { sandbox: { baseUrl: 'https://gateway.example', product: 'gw' } },
  audit: { keyFile: 'key' },
  callers: [{ name: 'billing', credentials: [{ anonymous: true }] }],
  keys: {
    source: 'vault',
    vault: {
      address: 'https://vault.example',
      auth: { method: 'approle', roleId: 'r', secretIdFile: '/s' },
    },
  },
});

function withOption(option: string, value: unknown) {
  const config = file();
  const steps = option.split('.');
  const path: string[] = [];
  let part: object = config;
  for (const step of steps) {
    const name = step === '*' ? (Object.keys(part)[0] ?? '') : step;
    path.push(/^\d+$/.test(name) ? `[${name}]` : `.${name}`);
    if (path.length === steps.length) Reflect.set(part, name, value);
    else part = Reflect.get(part, name);
  }
  return { text: JSON.stringify(config), path: path.join('').slice(1) };
}

const options = Object.entries(removedOptions);

describe('a removed option', () => {
  const folder = new Folder();
  afterAll(() => folder.remove());

  it.each(options)('is a problem that says what takes its place, and the only one: %s', (option, message) => {
    for (const value of [true, []]) {
      const { text, path } = withOption(option, value);
      expect(problemsOf(text)).toEqual([`1 ${path}: ${message}`]);
    }
    // What happened, and then what to do.
    expect(message).toMatch(/^was removed.*: .*(put|use|remove|name)/i);
  });

  it('stops check and start with one line, also if its variable is not set', async () => {
    const [[option, message] = ['', '']] = options;
    const { text, path } = withOption(option, '${COUNTERSIGN_TEST_NOT_SET}');
    const name = folder.file('c.yaml', text);
    const lines = [`${name}:1: ${path}: ${message}`, '1 problem'];
    expect(await run(['check', name])).toEqual({ code: 2, out: lines.join('\n'), err: '' });
    expect(await run(['serve', '--config', name])).toEqual({ code: 2, out: '', err: lines.join('\n') });
  });
});

it('any other unknown key is not one that was removed', () => {
  expect(problemsOf(`${minimal}rotation: {}\n`)).toEqual([expect.stringContaining('is not a known key')]);
  const others = ['keys', 'keys.rotation.canary', 'environments.canaryEndpoint', 'a.keys.rotation', ''];
  for (const path of others) expect(withReplacement({ path, line: 1, message: 'text' }).message).toBe('text');
});
