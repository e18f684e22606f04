import { expect } from '@jest/globals';
import { parse } from 'yaml';
import { validateConfig } from '../../src/config/load.ts';
import { builtInOperations } from '../../src/gateway/operations.ts';
import { at, ciValues, configText, container, list, renderOne, values } from '../support/helm.ts';
import { itWith } from '../support/requires.ts';

const whenHelm = itWith('helm');

/** Environment variables of the pod, with valid values. */
function lookUpIn(pod: unknown): (name: string) => string | undefined {
  const names = list(pod, 'env').map((variable) => at(variable, 'name'));
  return (name) => (names.includes(name) ? 'a1'.repeat(32) : undefined);
}

/** Values at any depth whose key ends in File, and keys.directory. */
function filesNamed(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) =>
    /File$|^directory$/.test(key) ? [String(inner)] : filesNamed(inner),
  );
}

whenHelm.each(ciValues)('the configuration of the %s values is valid', (name) => {
  const args = values(name);
  const lookUp = lookUpIn(container(args));
  const checked = validateConfig(configText(args), { lookUp, builtIn: builtInOperations });
  expect('problems' in checked ? checked.problems : []).toEqual([]);
});

whenHelm.each(ciValues)('every file in the %s values is in a mounted directory', (name) => {
  const args = values(name);
  const folders = list(container(args), 'volumeMounts').map((mount) => String(at(mount, 'mountPath')));
  const homeless = filesNamed(parse(configText(args))).filter(
    (file) => !folders.some((folder) => file === folder || file.startsWith(`${folder}/`)),
  );
  expect(homeless).toEqual([]);
});

whenHelm('the audit trail has a key from its Secret, and a folder for files or standard output', () => {
  const auditOf = (args: string[]) => at(parse(configText(args)), 'audit');
  const everything = values('everything');
  expect(auditOf(everything)).toEqual({
    directory: '/var/lib/audit',
    keyFile: '/etc/countersign/audit/trail.key',
    required: true,
  });
  const volumes = list(renderOne(everything, 'Deployment'), 'spec', 'template', 'spec', 'volumes');
  expect(volumes).toContainEqual({
    name: 'audit-key',
    secret: { secretName: 'signer-audit', defaultMode: 0o440 },
  });
  expect(volumes).toContainEqual({ name: 'audit', emptyDir: { sizeLimit: '256Mi' } });
  const toOutput = ['audit.enabled=true', 'audit.secretName="audit"'].flatMap((value) => [
    '--set-json',
    value,
  ]);
  expect(auditOf([...values('minimal'), ...toOutput])).toEqual({
    keyFile: '/etc/countersign/audit/key',
  });
  expect(auditOf(values('minimal'))).toBeUndefined();
});

whenHelm('listeners, container ports and Services agree', () => {
  const args = values('vault-kubernetes');
  const config: unknown = parse(configText(args));
  expect(at(config, 'proxy')).toMatchObject({ host: '::', port: 8443 });
  expect(at(config, 'admin')).toMatchObject({ host: '::', port: 9090 });
  expect(list(container(args), 'ports')).toEqual([
    { name: 'proxy', containerPort: 8443, protocol: 'TCP' },
    { name: 'admin', containerPort: 9090, protocol: 'TCP' },
  ]);
  const targets = (name: string) => list(renderOne(args, 'Service', name), 'spec', 'ports');
  expect(targets('pay-countersign')).toMatchObject([{ name: 'https', port: 8443, targetPort: 'proxy' }]);
  expect(targets('pay-countersign-admin')).toMatchObject([{ name: 'admin', targetPort: 'admin' }]);
});

whenHelm('metrics are served for every name of the admin Service and for added names', async () => {
  const own = '--set=config.admin.allowedHosts={metrics.internal}';
  const config: unknown = parse(configText([...values('minimal'), own]));
  expect(at(config, 'admin', 'allowedHosts')).toEqual([
    'metrics.internal',
    'pay-countersign-admin',
    'pay-countersign-admin.payments',
    'pay-countersign-admin.payments.svc',
    'pay-countersign-admin.payments.svc.cluster.local',
  ]);
  expect(at(renderOne(values('minimal'), 'Service', 'pay-countersign-admin'), 'kind')).toBe('Service');
});

whenHelm('anonymous callers may use every name of the proxy Service, and added names', () => {
  const own = '--set=config.proxy.allowedHosts={pay.internal}';
  const config: unknown = parse(configText([...values('minimal'), own]));
  expect(at(config, 'proxy', 'allowedHosts')).toEqual([
    'pay.internal',
    'pay-countersign',
    'pay-countersign.payments',
    'pay-countersign.payments.svc',
    'pay-countersign.payments.svc.cluster.local',
  ]);
});

whenHelm('the token and the runbook of the status page are those of the configuration', () => {
  const given = { tokenSha256: 'ab'.repeat(32), runbookUrl: 'https://wiki.example/runbook' };
  const own = Object.entries(given).map(([field, value]) => `--set=config.admin.${field}=${value}`);
  const config: unknown = parse(configText([...values('minimal'), ...own]));
  expect(at(config, 'admin')).toMatchObject({ host: '::', ...given });
});

whenHelm('given file paths are kept', () => {
  const own = '--set=config.keys.vault.auth.jwtFile=/etc/countersign/secrets/jwt/token';
  const config: unknown = parse(configText([...values('vault-kubernetes'), own]));
  expect(at(config, 'keys', 'vault', 'auth', 'jwtFile')).toBe('/etc/countersign/secrets/jwt/token');
});

whenHelm('large numbers are still numbers in the configuration', () => {
  expect(configText(values('everything'))).toMatch(/^ +maxEntries: 2000000$/m);
});

whenHelm('only a changed configuration changes the pods', () => {
  const checksum = (...args: string[]) =>
    at(
      renderOne([...values('minimal'), ...args], 'Deployment'),
      'spec',
      'template',
      'metadata',
      'annotations',
      'checksum/config',
    );
  expect(checksum()).toMatch(/^[0-9a-f]{64}$/);
  expect(checksum('--set=config.log.level=debug')).not.toBe(checksum());
  expect(checksum('--set=ports.proxy=8081')).not.toBe(checksum());
  expect(checksum('--set=replicaCount=5')).toBe(checksum());
});

whenHelm('no rendered object contains a secret: secrets are references', () => {
  const env = list(container(values('everything')), 'env');
  expect(env[0]).toEqual({
    name: 'VAULT_ROLE_ID',
    valueFrom: { secretKeyRef: { name: 'countersign-approle', key: 'role_id', optional: false } },
  });
  expect(configText(values('everything'))).toContain('roleId: ${VAULT_ROLE_ID}');
});

whenHelm('each login has its keys in a separate directory, from a separate Secret', () => {
  const volumes = list(
    renderOne(values('directory-keys'), 'Deployment'),
    'spec',
    'template',
    'spec',
    'volumes',
  );
  const keys = volumes.find((volume) => at(volume, 'name') === 'keys');
  expect(list(keys, 'projected', 'sources')).toContainEqual({
    secret: {
      name: 'countersign-sandbox-acme',
      items: [
        { key: 'control_key', path: 'sandbox/acme/control_key' },
        { key: 'private_key.pem', path: 'sandbox/acme/private_key.pem' },
      ],
    },
  });
});

whenHelm(
  'both ports have TLS with the certificates of their Secrets, and the lowest version of the values',
  () => {
    const config: unknown = parse(configText(values('everything')));
    const tlsIn = (directory: string) => ({
      certFile: `${directory}/tls.crt`,
      keyFile: `${directory}/tls.key`,
      clientCaFile: `${directory}/ca.crt`,
      minVersion: '1.3',
    });
    expect(at(config, 'proxy', 'tls')).toEqual(tlsIn('/etc/countersign/tls'));
    expect(at(config, 'admin', 'tls')).toEqual(tlsIn('/etc/countersign/admin-tls'));
    const plain = parse(configText(values('minimal')));
    expect([at(plain, 'proxy', 'tls'), at(plain, 'admin', 'tls')]).toEqual([undefined, undefined]);
  },
);
