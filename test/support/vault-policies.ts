import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './sources.ts';
import { VaultAdmin } from './stub-vault/admin.ts';

export const policyNames = ['proxy', 'platform'] as const;
export type PolicyName = (typeof policyNames)[number];
export type Rules = Record<string, { capabilities: string[] }>;

/** A policy of deploy/vault/policies, as setup.sh writes it for an environment, without Transit or with it. */
export function policyText(name: PolicyName, environment = 'production', transit = false): string {
  return [name, ...(transit ? [`${name}-transit`] : [])]
    .map((file) => policyFile(file, environment))
    .join('');
}

/** One file of deploy/vault/policies, for an environment. */
export function policyFile(name: string, environment: string): string {
  return readFileSync(join(root, `deploy/vault/policies/${name}.hcl`), 'utf8')
    .replaceAll('/gateway/production/', `/gateway/${environment}/`)
    .replaceAll('transit-production/', `transit-${environment}/`);
}

/** The blocks `path "..." { capabilities = [...] }` of a policy, which must have nothing else but comments. */
export function rulesOf(hcl: string): Rules {
  const block = /path "([^"]+)" \{\s*capabilities = \[([^\]]*)\]\s*\}/g;
  const rest = hcl.replaceAll(/#.*$/gm, '').replaceAll(block, '').trim();
  if (rest !== '') throw new Error(`not understood: ${rest}`);
  return Object.fromEntries(
    [...hcl.matchAll(block)].map(([, path = '', list = '']) => [
      path,
      { capabilities: JSON.parse(`[${list}]`) },
    ]),
  );
}

/** In JSON, which the stub needs and a real server accepts. */
export function policyJson(name: PolicyName, environment = 'production', transit = false): string {
  return JSON.stringify({ path: rulesOf(policyText(name, environment, transit)) });
}

interface Action {
  readonly name: string;
  readonly method: string;
  /** Of the login `acme` of an environment. */
  readonly path: (environment: string) => string;
  readonly body?: object;
  readonly by: readonly PolicyName[];
}

const secrets = (view: string, path: string) => `secret/${view}/gateway/${path}`;
const of = (view: string) => (environment: string) => secrets(view, `${environment}/acme`);
const both = policyNames;
const platform = ['platform'] as const;
const body = { versions: [1] };

/** What can be done to the keys of an environment, and whose policy permits it there. */
const actions: readonly Action[] = [
  { name: 'read the keys', method: 'GET', path: of('data'), by: both },
  { name: 'read a version', method: 'GET', path: (one) => `${of('data')(one)}?version=1`, by: both },
  { name: 'write keys', method: 'POST', path: of('data'), body: { data: { a: 'b' } }, by: platform },
  {
    name: 'list logins',
    method: 'GET',
    path: (one) => secrets('metadata', `${one}/?list=true`),
    by: platform,
  },
  { name: 'read the versions', method: 'GET', path: of('metadata'), by: platform },
  { name: 'delete the newest version', method: 'DELETE', path: of('data'), by: platform },
  { name: 'delete versions', method: 'POST', path: of('delete'), body, by: platform },
  { name: 'undelete versions', method: 'POST', path: of('undelete'), body, by: platform },
  { name: 'destroy versions', method: 'POST', path: of('destroy'), body, by: platform },
  { name: 'change metadata', method: 'POST', path: of('metadata'), body: { max_versions: 1 }, by: [] },
  { name: 'remove with metadata', method: 'DELETE', path: of('metadata'), by: [] },
  // What is not about one environment.
  { name: 'list environments', method: 'GET', path: () => secrets('metadata', '?list=true'), by: [] },
  { name: 'read outside the prefix', method: 'GET', path: () => 'secret/data/other/acme', by: [] },
  { name: 'configure the mount', method: 'POST', path: () => 'secret/config', body: {}, by: [] },
  { name: 'mount', method: 'POST', path: () => 'sys/mounts/more', body: { type: 'kv' }, by: [] },
  { name: 'unmount', method: 'DELETE', path: () => 'sys/mounts/secret', by: [] },
  { name: 'write a policy', method: 'POST', path: () => 'sys/policies/acl/more', body: {}, by: [] },
  { name: 'create a token', method: 'POST', path: () => 'auth/token/create', body: {}, by: [] },
];

const inTransit = (path: string) => (environment: string) => `transit-${environment}/${path}`;
const signature = {
  input: Buffer.alloc(32).toString('base64'),
  prehashed: true,
  signature_algorithm: 'pkcs1v15',
};

/** The same for the key `acme` of the Transit engine of an environment. */
export const transitActions: readonly Action[] = [
  { name: 'read the public keys', method: 'GET', path: inTransit('keys/acme'), by: both },
  { name: 'sign', method: 'POST', path: inTransit('sign/acme/sha2-256'), body: signature, by: both },
  {
    name: 'make a key',
    method: 'POST',
    path: inTransit('keys/new'),
    body: { type: 'rsa-2048' },
    by: platform,
  },
  { name: 'make a version', method: 'POST', path: inTransit('keys/acme/rotate'), body: {}, by: platform },
  { name: 'change settings', method: 'POST', path: inTransit('keys/acme/config'), body: {}, by: [] },
  { name: 'delete', method: 'DELETE', path: inTransit('keys/acme'), by: [] },
  { name: 'list', method: 'GET', path: inTransit('keys?list=true'), by: [] },
  { name: 'export', method: 'GET', path: inTransit('export/signing-key/acme'), by: [] },
  { name: 'back up', method: 'GET', path: inTransit('backup/acme'), by: [] },
  { name: 'trim', method: 'POST', path: inTransit('keys/acme/trim'), body: {}, by: [] },
  { name: 'sign with SHA-1', method: 'POST', path: inTransit('sign/acme/sha1'), body: signature, by: [] },
];

/** Enables the Transit engines of these environments, each with a key. */
export async function enableTransit(admin: VaultAdmin, environments: readonly string[]): Promise<void> {
  for (const environment of environments) {
    await admin.enable('mounts', `transit-${environment}`, { type: 'transit' });
    await admin.request('POST', `transit-${environment}/keys/acme`, { type: 'rsa-2048' });
  }
}

/** What a policy has to permit: `environment: action`. */
export function permittedBy(name: PolicyName, environment: string, of = actions): string[] {
  return of.filter(({ by }) => by.includes(name)).map((action) => `${environment}: ${action.name}`);
}

/** Does each of these actions with a token in these environments. @returns what was not denied */
export async function permittedTo(
  token: string,
  admin: VaultAdmin,
  environments: readonly string[],
  of = actions,
): Promise<string[]> {
  const client = new VaultAdmin(admin.address, token);
  const permitted: string[] = [];
  for (const environment of environments) {
    for (const action of of) {
      await admin.put(`gateway/${environment}/acme`, { control_key: 'any' });
      const path = action.path(environment);
      const { status } = await client.send(action.method, path, action.body);
      // Whatever else it is, a denial or a permission would not show.
      if (status >= 300 && status !== 403) throw new Error(`${action.method} ${path}: ${status}`);
      if (status !== 403) permitted.push(`${environment}: ${action.name}`);
    }
    await admin.request('DELETE', `secret/metadata/gateway/${environment}/acme`);
  }
  return permitted;
}
