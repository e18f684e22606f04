import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { parse, parseAllDocuments } from 'yaml';
import { blocksOf } from '../support/doc-examples.ts';
import { harness } from '../support/harness.ts';
import { at, chart, ciValues, helm, list, record, values } from '../support/helm.ts';
import { type CountersignProcess } from '../support/process.ts';
import { apiServerProgram, RealKubernetesApi } from '../support/real-kubernetes-api.ts';
import { describeWhere, itWhere, itWith } from '../support/requires.ts';
import { testKeys } from '../support/service.ts';
import { VaultAdmin } from '../support/stub-vault/admin.ts';
import { devServer } from '../support/stub-vault/real-vault.ts';

const read = (file: string) => readFileSync(file, 'utf8');
const vaultServer = devServer(process.env);
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
    for (const namespace of ['payments', 'pay', 'vault']) await api.createNamespace(namespace);
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

  itWith('helm')(
    'a pod with more rights than that is not admitted',
    async () => {
      const volume = 'extraVolumes=[{"name":"node","hostPath":{"path":"/"}}]';
      const installed = helmHere('install', 'wrong', chart, '--set-json', volume);
      expect(installed).toMatchObject({
        status: 0,
        stderr: expect.stringContaining('would violate PodSecurity'),
      });
      const created = await api.createPodOf(await deploymentOf('wrong'), 'payments', 'wrong');
      expect(created).toMatchObject({
        status: 403,
        body: { message: expect.stringContaining('restricted') },
      });
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

    async function start(): Promise<CountersignProcess> {
      const gateway = await starts.recordingGateway();
      const tokenFile = starts.folder().file('token', await api.token('payments', 'default'));
      const jwks = { url: `${api.address}/openid/v1/jwks` };
      const issuer = { ...record(jwtIssuers, 'cluster'), jwks, caFile: api.caFile, tokenFile };
      expect(issuer).toMatchObject({ issuer: api.issuer });
      const [caller] = list(callers).map((one) => record(one));
      const allow = [{ environments: ['*'], operations: ['*'], logins: ['*'] }];
      // The schema checks at the start what the page has.
      const config = JSON.parse(
        JSON.stringify({ jwtIssuers: { cluster: issuer }, callers: [{ ...caller, allow }] }),
      );
      return starts.process({ gateway: gateway.url, config });
    }
    const statusWith = async (process: CountersignProcess, token: string): Promise<number> =>
      (
        await process.post('/sandbox/gw/api/v2/get-balance/manager/acme', '', {
          Authorization: `Bearer ${token}`,
        })
      ).status;

    it('the token of the configured account for our audience is accepted, and no other', async () => {
      const process = await start();
      expect(await statusWith(process, await api.token('pay', 'billing', 'countersign'))).toBe(200);
      expect(await statusWith(process, await api.token('pay', 'billing', 'vault'))).toBe(401);
      expect(await statusWith(process, await api.token('pay', 'billing'))).toBe(401);
      expect(await statusWith(process, await api.token('pay', 'default', 'countersign'))).toBe(401);
      const [line] = await process.requestLines(4);
      expect(line).toMatchObject({ caller: 'billing', status: 200 });
    });

    it('a token outlives its account, as the security model says', async () => {
      const process = await start();
      await api.createAccount('pay', 'billing');
      const token = await api.token('pay', 'billing', 'countersign');
      await api.send('DELETE', '/api/v1/namespaces/pay/serviceaccounts/billing');
      expect(await statusWith(process, token)).toBe(200);
    });
  });

  itWhere(vaultServer.program !== undefined, 'VAULT_BIN names no Vault')(
    'Vault verifies the token of the pod by TokenReview, set up by setup.sh',
    async () => {
      const vault = starts.closing(await vaultServer.open());
      const admin = new VaultAdmin(vault.address, vault.rootToken);
      await admin.request('POST', 'secret/data/gateway/production/acme', {
        data: { control_key: testKeys.controlKey },
      });
      const reviewer = await api.send('POST', '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings', {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'ClusterRoleBinding',
        metadata: { name: 'vault' },
        roleRef: {
          apiGroup: 'rbac.authorization.k8s.io',
          kind: 'ClusterRole',
          name: 'system:auth-delegator',
        },
        subjects: [{ kind: 'ServiceAccount', name: 'default', namespace: 'vault' }],
      });
      expect(reviewer.status).toBe(201);
      const folder = starts.folder();
      mkdirSync(folder.at('bin'));
      symlinkSync(vaultServer.program ?? '', folder.at('bin/vault'));
      const env = {
        PATH: `${folder.at('bin')}:/usr/bin:/bin`,
        HOME: folder.path,
        VAULT_ADDR: vault.address,
        VAULT_TOKEN: vault.rootToken,
        ENVIRONMENT: 'production',
        AUTH: 'kubernetes',
        KUBERNETES_NAMESPACE: 'payments',
        KUBERNETES_HOST: api.address,
        KUBERNETES_CA_FILE: api.caFile,
        KUBERNETES_REVIEWER_JWT_FILE: folder.file('reviewer', await api.token('vault', 'default')),
        KUBERNETES_DISABLE_LOCAL_CA_JWT: 'true',
      };
      const setUp = spawnSync('sh', ['deploy/vault/setup.sh'], { env, encoding: 'utf8' });
      expect(setUp).toMatchObject({ status: 0 });
      await api.createAccount('payments', 'countersign-production');
      const gateway = await starts.recordingGateway();
      const start = async (name: string, token: string): Promise<CountersignProcess> => {
        const auth = {
          method: 'kubernetes',
          role: 'countersign-production',
          jwtFile: folder.file(name, token),
        } as const;
        return starts.process({
          config: {
            environments: { production: { baseUrl: gateway.url, product: 'gw' } },
            keys: { source: 'vault', vault: { address: vault.address, auth } },
          },
        });
      };
      const balance = '/production/gw/api/v2/get-balance/manager/acme';
      const token = await api.token('payments', 'countersign-production', 'vault');
      expect(await (await start('right', token)).post(balance)).toMatchObject({ status: 200, body: 'OK' });
      const others = [
        await api.token('payments', 'countersign-production', 'another'),
        await api.token('payments', 'default', 'vault'),
        // The API server remembers the review of the token above for 10 s.
        await api.token('payments', 'countersign-production', 'vault'),
      ];
      // Unlike a key set, a review knows that the account is gone.
      await api.send('DELETE', '/api/v1/namespaces/payments/serviceaccounts/countersign-production');
      for (const [index, other] of others.entries()) {
        const process = await start(`other-${index}`, other);
        const { status } = await process.post(balance);
        expect([index, status, await process.readiness()]).toEqual([index, 503, 503]);
      }
      expect(gateway.requests).toHaveLength(1);
    },
    60_000,
  );
});
