import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { parse, parseAllDocuments } from 'yaml';
import { validateConfig } from '../../src/config/load.ts';
import { builtInOperations } from '../../src/gateway/operations.ts';
import { blocksOf } from '../support/doc-examples.ts';
import { always, httpResponse } from '../support/faulty-gateway.ts';
import { transferForm } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { at, container, list, record, renderOne, values } from '../support/helm.ts';
import { serviceAccountToken } from '../support/kubernetes-api.ts';
import { type CountersignProcess, listening } from '../support/process.ts';
import { itWith } from '../support/requires.ts';
import { testKeys } from '../support/service.ts';
import { VaultAdmin } from '../support/stub-vault/admin.ts';
import { StubVault } from '../support/stub-vault/server.ts';
import { rootToken } from '../support/stub-vault/state.ts';
import { policyJson } from '../support/vault-policies.ts';

// Kubernetes reads YAML 1.1, where 0440 is octal.
const objects = parseAllDocuments(readFileSync('deploy/sidecar.yaml', 'utf8'), { version: '1.1' }).map(
  (document): unknown => document.toJS(),
);
const objectOf = (kind: string): unknown => objects.find((one) => at(one, 'kind') === kind);
const pod = record(objectOf('Deployment'), 'spec', 'template', 'spec');
const [sidecar, ...otherInit] = list(pod, 'initContainers');
const [service, ...otherContainers] = list(pod, 'containers');
const configText = String(at(objectOf('ConfigMap'), 'data', 'config.yaml'));
const config = record(parse(configText));
const page = readFileSync('docs/sidecar.md', 'utf8');

describe('deploy/sidecar.yaml', () => {
  itWith('helm')('runs Countersign with the image, arguments, probes and limits of the chart', () => {
    const chart = record(container(values('default')));
    const { lifecycle: _preStop, ports, volumeMounts: _mounts, ...same } = chart;
    const { restartPolicy, ports: ownPorts, volumeMounts: _ownMounts, ...own } = record(sidecar);
    expect(own).toEqual(same);
    expect(restartPolicy).toBe('Always');
    expect(ownPorts).toEqual(list(ports).filter((port) => at(port, 'name') === 'admin'));
    const spec = record(renderOne(values('default'), 'Deployment'), 'spec', 'template', 'spec');
    expect(at(pod, 'securityContext')).toEqual(at(spec, 'securityContext'));
  });

  it('starts one sidecar before the service, and no preStop runs in it', () => {
    expect([otherInit, otherContainers]).toEqual([[], []]);
    const probe = { path: '/healthz', port: 'admin', scheme: 'HTTP' };
    expect(at(sidecar, 'startupProbe', 'httpGet')).toEqual(probe);
    // The kubelet runs it when the pod begins to end, not when the service has ended.
    expect(sidecar).not.toHaveProperty('lifecycle');
  });

  it('has a service as restricted as itself, and does not share the loopback of its node', () => {
    expect(at(service, 'securityContext')).toEqual(at(sidecar, 'securityContext'));
    expect(Object.keys(pod).filter((key) => key.startsWith('host'))).toEqual([]);
    expect(at(pod, 'automountServiceAccountToken')).toBe(false);
  });

  it('gives the token for Vault to the sidecar only', () => {
    const tokens = list(pod, 'volumes').filter((volume) => at(volume, 'projected') !== undefined);
    expect(tokens).toMatchObject([{ name: 'countersign-vault-token' }]);
    const mount = list(sidecar, 'volumeMounts').find((one) => at(one, 'name') === 'countersign-vault-token');
    const jwtFile = `${String(at(mount, 'mountPath'))}/token`;
    expect(at(config, 'keys', 'vault', 'auth', 'jwtFile')).toBe(jwtFile);
    expect(list(service, 'volumeMounts')).toEqual([]);
  });

  it('has a grace period for the service, and then for Countersign', () => {
    const preStop = Number(at(service, 'lifecycle', 'preStop', 'sleep', 'seconds'));
    const defaults = validateConfig(configText, { lookUp: () => undefined, builtIn: builtInOperations });
    if ('problems' in defaults) throw new Error(JSON.stringify(defaults.problems));
    const { shutdownDelay, shutdown } = defaults.config.proxy.timeouts;
    const stop = (shutdownDelay + shutdown) / 1_000 + 2;
    expect(at(pod, 'terminationGracePeriodSeconds')).toBe(preStop + 35 + stop + 5);
  });

  it('the service is given the address of the proxy port', () => {
    const { host, port } = record(config, 'proxy');
    expect(at(service, 'env')).toEqual([
      { name: 'COUNTERSIGN_URL', value: `http://${String(host)}:${String(port)}` },
    ]);
  });

  it('also works with a token, as the page shows', () => {
    const [{ text: callers } = { text: '' }] = blocksOf(page, 'yaml').filter(({ text }) =>
      text.startsWith('callers:'),
    );
    const withToken = configText.replace(/^callers:[^]*/m, callers);
    const checked = validateConfig(withToken, { lookUp: () => undefined, builtIn: builtInOperations });
    expect(checked).toHaveProperty('config.callers.0.credentials.0.tokenSha256');
  });
});

describe('its configuration in a real process', () => {
  const starts = harness(afterAll);
  let process: CountersignProcess;
  const vault = new StubVault();
  const path = '/production/gw/api/v4/transfer/1234';
  const jwt = serviceAccountToken();

  beforeAll(async () => {
    const admin = new VaultAdmin(await vault.listen(), rootToken);
    await admin.policyText('proxy', policyJson('proxy'));
    await admin.put('gateway/production/acme', { private_key: testKeys.privateKey });
    vault.world().kubernetes.role('countersign-production-billing', { policies: ['proxy'], ttl: 3600 });
    vault.world().kubernetes.accept(jwt);
    const gateway = await starts.gateway([always(httpResponse('200 OK', 'status=approved\n'))]);
    // Only addresses, ports and the file with the token differ.
    const file = configText
      .replace('https://gateway.example', gateway.url)
      .replace('https://vault.vault.svc:8200', vault.address)
      .replace(/jwtFile: .*/, `jwtFile: ${starts.folder().file('token', jwt)}`)
      .replace('admin: { host: "::"', 'admin: { host: 127.0.0.1')
      .replaceAll(/port: \d+/g, 'port: 0');
    process = await listening(starts.spawn({ file }));
  }, 30_000);
  afterAll(() => vault.close());

  it('listens on 127.0.0.1 only', async () => {
    const { hostname, port } = new URL(process.url);
    expect(hostname).toBe('127.0.0.1');
    // Another address of this machine: Linux has all of 127.0.0.0/8.
    await expect(fetch(`http://127.0.0.2:${port}/`)).rejects.toMatchObject({
      cause: { code: 'ECONNREFUSED' },
    });
  });

  it('signs for its one caller, within the grants', async () => {
    expect(await process.post(path, transferForm)).toMatchObject({ status: 200, body: 'status=approved\n' });
    expect((await process.requestLines())[0]).toMatchObject({ caller: 'billing', login: 'acme' });
    const balance = await process.post('/production/gw/api/v2/get-balance/manager/acme');
    expect([balance.status, JSON.parse(balance.body).reason]).toEqual([403, 'not-allowed']);
  });
});
