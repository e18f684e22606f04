import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { parse, parseAllDocuments } from 'yaml';
import { blocksOf } from '../support/doc-examples.ts';
import { harness } from '../support/harness.ts';
import { at, chart, ciValues, helm, list, record, values } from '../support/helm.ts';
import { apiServerProgram, RealKubernetesApi } from '../support/real-kubernetes-api.ts';
import { describeWhere, itWith } from '../support/requires.ts';

const read = (file: string) => readFileSync(file, 'utf8');
const program = apiServerProgram ?? '';
const describeWithApi = describeWhere(
  apiServerProgram !== undefined,
  'KUBE_APISERVER_BIN names no kube-apiserver, or etcd is not installed (Debian package etcd-server)',
);

describeWithApi('on a real Kubernetes API server', () => {
  const api = new RealKubernetesApi();
  const starts = harness();

  beforeAll(async () => {
    await api.start(program);
    for (const namespace of ['payments', 'pay']) await api.createNamespace(namespace);
    await api.createAccount('pay', 'billing');
    const priority = { apiVersion: 'scheduling.k8s.io/v1', kind: 'PriorityClass', value: 1 };
    const created = await api.send('POST', '/apis/scheduling.k8s.io/v1/priorityclasses', {
      ...priority,
      metadata: { name: 'payments' },
    });
    expect(created.status).toBe(201);
  }, 90_000);
  afterAll(() => api.close());

  const helmHere = (...args: readonly string[]) =>
    helm(['--kubeconfig', api.kubeconfig, '--namespace', 'payments', ...args]);
  const deploymentOf = async (name: string): Promise<unknown> => {
    const selector = `labelSelector=app.kubernetes.io%2Finstance%3D${name}`;
    const { body } = await api.send('GET', `/apis/apps/v1/namespaces/payments/deployments?${selector}`);
    return at(body, 'items', 0);
  };

  itWith('helm').each(ciValues)(
    'helm installs the %s values, whose pods are admitted as restricted',
    async (name) => {
      // The objects of the Prometheus operator, which is not installed.
      const without = ['serviceMonitor.enabled=false', 'prometheusRule.enabled=false'];
      const settings = [...values(name), ...without.flatMap((setting) => ['--set', setting])];
      const installed = helmHere('install', name, chart, ...settings);
      expect(installed).toMatchObject({ status: 0, stderr: '' });
      const created = await api.createPodOf(await deploymentOf(name), 'payments', `pod-of-${name}`);
      expect(created).toMatchObject({ status: 201, warnings: undefined });
      const test: unknown = parse(helmHere('get', 'hooks', name).stdout, { version: '1.1' });
      expect(await api.create(test, 'payments')).toMatchObject({ status: 201, warnings: undefined });
    },
    60_000,
  );

  it('deploy/sidecar.yaml is applied without a warning, and its pod is admitted with the sidecar', async () => {
    const manifest = parseAllDocuments(read('deploy/sidecar.yaml'), { version: '1.1' });
    const objects = manifest.map((document): unknown => document.toJS());
    await api.createNamespace('billing');
    for (const object of objects) {
      expect(await api.create(object, 'billing')).toMatchObject({ status: 201, warnings: undefined });
    }
    const pod = await api.createPodOf(objects.at(-1), 'billing', 'billing');
    expect(pod).toMatchObject({ status: 201, warnings: undefined });
    expect(at(pod.body, 'spec', 'initContainers', 0, 'restartPolicy')).toBe('Always');
  });

  describe('callers with service account tokens, configured as docs/callers.md shows', () => {
    const [cluster = ''] = blocksOf(read('docs/callers.md'), 'yaml')
      .map(({ text }) => text)
      .filter((text) => text.startsWith('jwtIssuers:'));
    const { jwtIssuers, callers } = record(parse(cluster));

    it('the token of the configured account for our audience is accepted, and no other', async () => {
      const gateway = await starts.recordingGateway();
      const tokenFile = starts.folder().file('token', await api.token('payments', 'default'));
      const jwks = { url: `${api.address}/openid/v1/jwks` };
      const issuer = { ...record(jwtIssuers, 'cluster'), jwks, caFile: api.caFile, tokenFile };
      expect(issuer).toMatchObject({ issuer: api.issuer });
      const allow = [{ environments: ['*'], operations: ['*'], logins: ['*'] }];
      const caller = { ...record(list(callers)[0]), allow };
      // The schema checks at the start what the page has.
      const config = JSON.parse(JSON.stringify({ jwtIssuers: { cluster: issuer }, callers: [caller] }));
      const process = await starts.process({ gateway: gateway.url, config });
      const statusWith = async (...account: Parameters<typeof api.token>): Promise<number> => {
        const headers = { Authorization: `Bearer ${await api.token(...account)}` };
        return (await process.post('/sandbox/gw/api/v2/get-balance/manager/acme', '', headers)).status;
      };
      expect(await statusWith('pay', 'billing', 'countersign')).toBe(200);
      expect(await statusWith('pay', 'billing', 'vault')).toBe(401);
      expect(await statusWith('pay', 'billing')).toBe(401);
      expect(await statusWith('pay', 'default', 'countersign')).toBe(401);
      const [line] = await process.requestLines(4);
      expect(line).toMatchObject({ caller: 'billing', status: 200 });
    });
  });
});
