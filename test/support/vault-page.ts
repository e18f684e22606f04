import { execFile } from 'node:child_process';
import { createPublicKey } from 'node:crypto';
import { chmodSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { Secret } from '../../src/secret.ts';
import { blocksOf, normalized, type Step, stepsOf } from './doc-examples.ts';
import type { KeysTestEnvironment } from './keys-test-environment.ts';
import { root } from './sources.ts';

/** The steps of the sessions in a page, also of those inside a list. */
export function stepsIn(page: string): Step[] {
  const unindented = page.replace(
    /^ *(?:1\. )?(```console\n)([^]*?)^ *```$/gm,
    (_all, start: string, body: string) => {
      const indent = /^ */.exec(body)?.[0] ?? '';
      return `${start}${body.replaceAll(new RegExp(`^${indent}`, 'gm'), '')}\`\`\``;
    },
  );
  return blocksOf(unindented, 'console').flatMap(({ text }) => stepsOf(text));
}

/** The text without the parts, and the column widths, that differ from run to run, and without the line about the login. */
export function plainly(text: string): string {
  return normalized(
    text
      .replaceAll(/^Vault: .*\n/gm, '')
      .replace(/(-----BEGIN PUBLIC KEY-----\n)[^-]*/g, '$1...\n')
      .replaceAll(/\b[0-9a-f]{16}\b/g, '<beginning of sha256>')
      .replaceAll(/ \d+[smhd] /g, ' <age> ')
      .replaceAll(/ {2,}/g, '  '),
  );
}

const controlKeys: Readonly<Record<string, string>> = {
  'gateway/acme': 'page-control-key-1',
  'gateway/acme-new': 'page-control-key-2',
};

/** Runs commands of the page in a folder that has what the page presupposes. */
export class PageRunner {
  readonly #setup: KeysTestEnvironment;
  readonly #home: string;

  /** @param vault the program `vault`; a substitute for it unless given */
  constructor(setup: KeysTestEnvironment, token: string, vault?: string) {
    this.#setup = setup;
    this.#home = join(setup.folder.path, 'home');
    mkdirSync(join(this.#home, 'bin'), { recursive: true });
    setup.folder.file('home/.vault-token', token);
    const endpoints = { 1234: 'acme' };
    const environments = { production: { baseUrl: setup.gateway.url, product: 'gw', endpoints } };
    const auth = { method: 'kubernetes', role: 'countersign' } as const;
    const transit = { mounts: { production: 'transit-production' } };
    const keys = { source: 'vault', vault: { address: setup.admin.address, auth, transit } } as const;
    setup.writeConfig('home/config.yaml', { environments, keys });
    this.#program('countersign', `exec "${process.execPath}" "${root}src/main.ts" "$@"`);
    const shown = Object.entries(controlKeys).map(([name, key]) => `${name}) echo ${key} ;;`);
    this.#program('pass', `case $2 in ${shown.join(' ')} *) exit 1 ;; esac`);
    // Like the real one: `kv destroy -mount=M -versions=V,V PATH` is a PUT to M/destroy/PATH.
    const substitute = `[ "$1 $2 $3" = "kv destroy -mount=secret" ] || exit 2
       curl -sSf -X PUT -H "X-Vault-Token: $(cat ~/.vault-token)" -d "{\\"versions\\": [\${4#*=}]}" \\
         "${setup.admin.address}/v1/secret/destroy/$5"
       echo "Success! Data written to: secret/destroy/$5"`;
    const real = `VAULT_ADDR="${setup.admin.address}" exec "${vault}" "$@"`;
    this.#program('vault', vault === undefined ? substitute : real);
  }

  /** Runs a command. A comment in the page is a change at the gateway. */
  run({ command }: Step): Promise<string> {
    return command.startsWith('#') ? this.#happen(command) : this.#execute(command);
  }

  async #happen(event: string): Promise<string> {
    const { data } = await this.#setup.admin.request('GET', 'secret/data/gateway/production/acme');
    const { control_key, private_key } = Object(data?.['data']);
    const controlKey = event.includes('new control key') ? controlKeys['gateway/acme-new'] : control_key;
    this.#setup.gateway.simulator.keys.set('acme', {
      controlKeys: [new Secret(String(controlKey))],
      publicKeys: [createPublicKey(String(private_key))],
    });
    return '';
  }

  #execute(command: string): Promise<string> {
    const PATH = `${this.#home}/bin:${process.env['PATH'] ?? ''}`;
    const env = { ...process.env, HOME: this.#home, PATH, COUNTERSIGN_CONFIG: 'config.yaml' };
    return new Promise((resolve) => {
      execFile('bash', ['-c', command], { cwd: this.#home, env }, (_error, out, err) => resolve(out + err));
    });
  }

  #program(name: string, body: string): void {
    chmodSync(this.#setup.folder.file(`home/bin/${name}`, `#!/bin/sh\n${body}\n`), 0o755);
  }
}
