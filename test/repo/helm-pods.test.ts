import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { afterEach, expect } from '@jest/globals';
import { createAdminApp } from '../../src/observability/admin-app.ts';
import {
  at,
  ciValues,
  container,
  list,
  record,
  render,
  renderOne,
  template,
  values,
} from '../support/helm.ts';
import { execForm, readStages } from '../support/image.ts';
import { itWith } from '../support/requires.ts';

const whenHelm = itWith('helm');
const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

/** The admin port with the real app. */
async function startAdminPort(ready: boolean): Promise<number> {
  const page = async () => ({ contentType: 'text/plain', body: '' });
  const server = createServer(
    createAdminApp({
      monotonic: () => performance.now(),
      interval: 0,
      page,
      readiness: () => ({ ready, reasons: [], warnings: [] }),
      status: () => Promise.reject(new Error('not part of this test')),
      statusAccess: () => 'off',
    }),
  );
  servers.push(server);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}

const podSpec = (args: string[]) => at(renderOne(args, 'Deployment'), 'spec', 'template', 'spec');

whenHelm('the probes use paths that the admin port serves', async () => {
  const pod = container(values('default'));
  const status = async (probe: string, ready: boolean) => {
    const path = String(at(pod, probe, 'httpGet', 'path'));
    return (await fetch(`http://127.0.0.1:${await startAdminPort(ready)}${path}`)).status;
  };
  expect(await status('startupProbe', false)).toBe(200);
  expect(await status('livenessProbe', false)).toBe(200);
  expect(await status('readinessProbe', false)).toBe(503);
  expect(await status('readinessProbe', true)).toBe(200);
  const ports = ['startupProbe', 'livenessProbe', 'readinessProbe'].map((probe) =>
    at(pod, probe, 'httpGet', 'port'),
  );
  expect(ports).toEqual(['admin', 'admin', 'admin']);
});

whenHelm('the probes and the test hook use HTTPS only if the admin port has TLS', () => {
  const probes = ['startupProbe', 'livenessProbe', 'readinessProbe'];
  const schemes = (name: string) =>
    probes.map((probe) => at(container(values(name)), probe, 'httpGet', 'scheme'));
  const urls = (name: string) =>
    list(renderOne(values(name), 'Pod'), 'spec', 'containers', 0, 'env').map((one) => at(one, 'value'));
  expect(schemes('default')).toEqual(['HTTP', 'HTTP', 'HTTP']);
  expect(urls('default')).toContain('http://pay-countersign-admin.payments.svc:9090/readyz');
  expect(schemes('everything')).toEqual(['HTTPS', 'HTTPS', 'HTTPS']);
  expect(urls('everything')).toEqual(
    expect.arrayContaining([
      'https://payments-signer-admin.payments.svc:9091/readyz',
      '/etc/countersign/admin-tls/ca.crt',
    ]),
  );
});

whenHelm.each(ciValues)('pods of the %s values meet the "restricted" Pod Security Standard', (name) => {
  const pods = [podSpec(values(name)), at(renderOne(values(name), 'Pod'), 'spec')];
  for (const pod of pods) {
    expect(at(pod, 'securityContext')).toMatchObject({
      runAsNonRoot: true,
      seccompProfile: { type: 'RuntimeDefault' },
    });
    for (const one of list(pod, 'containers')) {
      expect(at(one, 'securityContext')).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        runAsNonRoot: true,
        capabilities: { drop: ['ALL'] },
      });
    }
    const kinds = list(pod, 'volumes').flatMap((volume) => Object.keys(record(volume)));
    const allowed = ['name', 'configMap', 'secret', 'projected', 'emptyDir'];
    expect(kinds.filter((kind) => !allowed.includes(kind))).toEqual([]);
    expect(at(pod, 'automountServiceAccountToken')).toBe(false);
    for (const key of ['hostNetwork', 'hostPID', 'hostIPC']) expect(at(pod, key)).toBeUndefined();
  }
});

whenHelm.each(ciValues)(
  'containers of the %s values have requests and limits of ephemeral storage',
  (name) => {
    const pods = [podSpec(values(name)), at(renderOne(values(name), 'Pod'), 'spec')];
    for (const one of pods.flatMap((pod) => list(pod, 'containers'))) {
      const [request, limit] = ['requests', 'limits'].map((kind) =>
        Number.parseInt(String(at(one, 'resources', kind, 'ephemeral-storage')), 10),
      );
      expect(request).toBeGreaterThan(0);
      expect(limit).toBeGreaterThan(request ?? 0);
    }
  },
);

whenHelm('the pod runs as the user of the image, with the same command', () => {
  const dockerfile = readFileSync('Dockerfile', 'utf8');
  const pod = podSpec(values('default'));
  const user = readStages(dockerfile)
    .at(-1)
    ?.instructions.find(({ name }) => name === 'USER')?.text;
  const { runAsUser, runAsGroup } = record(pod, 'securityContext');
  expect(user).toBe(`${String(runAsUser)}:${String(runAsGroup)}`);
  const [one] = list(pod, 'containers');
  expect(at(one, 'command')).toBeUndefined();
  const [command, option] = execForm(dockerfile, 'CMD');
  expect(at(one, 'args')).toEqual([command, option, '/etc/countersign/config/config.yaml']);
});

whenHelm('a token with the audience of Vault is projected only if the pod logs in with it', () => {
  const tokens = (name: string) =>
    list(podSpec(values(name)), 'volumes').filter((volume) => at(volume, 'name') === 'vault-token');
  expect(list(tokens('vault-kubernetes')[0], 'projected', 'sources')).toEqual([
    { serviceAccountToken: { path: 'token', audience: 'vault.internal', expirationSeconds: 1800 } },
  ]);
  expect(tokens('vault-kubernetes')[0]).toMatchObject({ projected: { defaultMode: 0o440 } });
  expect(['minimal', 'everything', 'directory-keys'].flatMap(tokens)).toEqual([]);
});

whenHelm(
  'the token and the CA of the Kubernetes API are projected only if a JWT issuer names one of them',
  () => {
    const volumes = (name: string) =>
      list(podSpec(values(name)), 'volumes').filter((volume) => at(volume, 'name') === 'kubernetes-api');
    expect(list(volumes('vault-kubernetes')[0], 'projected', 'sources')).toEqual([
      { serviceAccountToken: { path: 'token', expirationSeconds: 3600 } },
      { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
    ]);
    const mounts = list(container(values('vault-kubernetes')), 'volumeMounts');
    expect(mounts).toContainEqual({
      name: 'kubernetes-api',
      mountPath: '/var/run/secrets/countersign/kubernetes-api',
      readOnly: true,
    });
    expect(['minimal', 'everything', 'directory-keys'].flatMap(volumes)).toEqual([]);
  },
);

whenHelm.each(ciValues)('the grace period of the %s values covers the whole shutdown', (name) => {
  const pod = podSpec(values(name));
  const preStop = at(pod, 'containers', 0, 'lifecycle', 'preStop', 'sleep', 'seconds');
  const [shutdownDelay, drain] = [5, name === 'vault-kubernetes' ? 50 : 35];
  expect(preStop).toBeGreaterThan(0);
  const needed = Number(preStop) + shutdownDelay + 1 + drain + 1 + 5;
  expect(at(pod, 'terminationGracePeriodSeconds')).toBeGreaterThanOrEqual(needed);
});

whenHelm('the grace period of the pod is the given one', () => {
  const pod = podSpec([...values('default'), '--set', 'terminationGracePeriodSeconds=77']);
  expect(at(pod, 'terminationGracePeriodSeconds')).toBe(77);
});

const store = ['config.payments.once.store=rediss://r.example', 'config.payments.once.keyFile=/k'];

// preStopSeconds + shutdown delay + 1 s + drain + twice the time for the store of claims + 1 s + 5 s.
whenHelm.each([
  [[], 5 + 5 + 1 + 35 + 1 + 5],
  [['preStopSeconds=9'], 9 + 5 + 1 + 35 + 1 + 5],
  [['config.proxy.timeouts.shutdownDelay=20s'], 5 + 20 + 1 + 35 + 1 + 5],
  [['config.proxy.timeouts.shutdownDelay=1500ms'], 5 + 2 + 1 + 35 + 1 + 5],
  [['config.proxy.timeouts.shutdown=2m'], 5 + 5 + 1 + 120 + 1 + 5],
  [['config.environments.sandbox.timeouts.request=50s'], 5 + 5 + 1 + 50 + 1 + 5],
  [['config.payments.once.store=memory', 'replicaCount=1'], 5 + 5 + 1 + 35 + 1 + 5],
  [store, 5 + 5 + 1 + 35 + 2 + 1 + 5],
  [[...store, 'config.payments.once.timeout=10s'], 5 + 5 + 1 + 35 + 20 + 1 + 5],
])('with %j the minimum grace period is %d s', (settings, shortest) => {
  const within = (seconds: number) =>
    template([
      ...values('minimal'),
      ...[...settings, `terminationGracePeriodSeconds=${seconds}`].flatMap((setting) => ['--set', setting]),
    ]);
  expect(within(shortest).status).toBe(0);
  expect(within(shortest - 1).status).toBe(1);
});

whenHelm('a grace period that is too short is rejected with every term of the sum', () => {
  const { stderr } = template([...values('minimal'), '--set', 'terminationGracePeriodSeconds=45']);
  expect(stderr).toContain(
    'terminationGracePeriodSeconds (45) must be at least 52: preStopSeconds (5) + config.proxy.timeouts.shutdownDelay (5s) + 1s to close idle connections + config.proxy.timeouts.shutdown (35s) + 1s to end + 5s in reserve.',
  );
});

whenHelm.each([
  ['config.environments.sandbox.timeouts.request=1m', 'config.environments.sandbox.timeouts.request (1m)'],
  ['config.proxy.timeouts.shutdown=40000ms', 'config.proxy.timeouts.shutdown (40000ms)'],
  ['config.proxy.timeouts.shutdownDelay=1m', 'config.proxy.timeouts.shutdownDelay (1m)'],
  [[...store, 'config.payments.once.timeout=10s'].join(','), 'twice config.payments.once.timeout (10s)'],
])('the chart rejects %s, which would abort requests', (setting, message) => {
  const rendered = template([...values('minimal'), '--set', setting]);
  expect(rendered.status).toBe(1);
  expect(rendered.stderr).toContain(message);
});

whenHelm.each(['2', '25%'])(
  'the disruption budget allows the given number of unavailable pods: %s',
  (given) => {
    const budget = renderOne(
      [...values('default'), '--set', `podDisruptionBudget.maxUnavailable=${given}`],
      'PodDisruptionBudget',
    );
    expect(String(at(budget, 'spec', 'maxUnavailable'))).toBe(given);
  },
);

whenHelm('a digest pins the image', () => {
  const digest = `sha256:${'0'.repeat(64)}`;
  const image = `registry.internal/payments/countersign:0.1.0@${digest}`;
  expect(at(container(values('vault-kubernetes')), 'image')).toBe(image);
  expect(at(container(values('default')), 'image')).toBe('countersign:0.1.0');
});

whenHelm('an enabled autoscaler alone sets the number of pods', () => {
  const everything = values('everything');
  expect(at(renderOne(everything, 'Deployment'), 'spec', 'replicas')).toBeUndefined();
  const scaler = renderOne(everything, 'HorizontalPodAutoscaler');
  expect(at(scaler, 'spec')).toMatchObject({
    scaleTargetRef: { kind: 'Deployment', name: 'payments-signer' },
    minReplicas: 3,
    maxReplicas: 12,
  });
  expect(list(scaler, 'spec', 'metrics').map((metric) => at(metric, 'resource', 'name'))).toEqual([
    'cpu',
    'memory',
  ]);
  expect(at(renderOne(values('default'), 'Deployment'), 'spec', 'replicas')).toBe(2);
});

whenHelm('every selector of the chart matches the pods of the Deployment', () => {
  const everything = values('everything');
  const labels = at(renderOne(everything, 'Deployment'), 'spec', 'template', 'metadata', 'labels');
  const selectors = [
    at(renderOne(everything, 'Deployment'), 'spec', 'selector', 'matchLabels'),
    at(renderOne(everything, 'PodDisruptionBudget'), 'spec', 'selector', 'matchLabels'),
    at(renderOne(everything, 'NetworkPolicy'), 'spec', 'podSelector', 'matchLabels'),
    ...render(everything, 'Service').map((service) => at(service, 'spec', 'selector')),
    ...list(podSpec(everything), 'topologySpreadConstraints').map((one) =>
      at(one, 'labelSelector', 'matchLabels'),
    ),
  ];
  expect(selectors).toHaveLength(6);
  for (const selector of selectors) expect(labels).toMatchObject(record(selector));
  const test = at(renderOne(everything, 'Pod'), 'metadata', 'labels');
  expect(test).not.toMatchObject(record(selectors[0]));
});

whenHelm.each([
  [true, 0],
  [false, 1],
])('the test hook, against pods whose readiness is %s, exits %d', async (ready, status) => {
  const port = await startAdminPort(ready);
  const pod = at(renderOne(values('default'), 'Pod'), 'spec', 'containers', 0);
  const [, ...command] = [...list(pod, 'command'), ...list(pod, 'args')].map(String);
  const env = {
    READY_URL: `http://127.0.0.1:${port}/readyz`,
    PROXY_HOST: '127.0.0.1',
    PROXY_PORT: `${port}`,
  };
  expect(await once(spawn(process.execPath, command, { env }), 'exit')).toEqual([status, null]);
});
