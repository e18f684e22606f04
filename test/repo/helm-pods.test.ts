import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { afterAll, describe, expect } from '@jest/globals';
import { loadConfig } from '../../src/config/load.ts';
import { builtInOperations } from '../../src/gateway/operations.ts';
import { Folder } from '../support/folder.ts';
import {
  at,
  ciValues,
  configIn,
  configText,
  container,
  list,
  podSpec,
  record,
  render,
  renderOne,
  template,
  values,
} from '../support/helm.ts';
import { execForm, readStages } from '../support/image.ts';
import { listen } from '../support/listening.ts';
import { itWith } from '../support/requires.ts';
import { root } from '../support/sources.ts';

const whenHelm = itWith('helm');
const folder = new Folder();
afterAll(() => folder.remove());
const probes = ['startupProbe', 'livenessProbe', 'readinessProbe'];

/** Values at any depth whose key ends in File, and keys.directory. */
function filesNamed(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) =>
    /File$|^directory$/.test(key) ? [String(inner)] : filesNamed(inner),
  );
}

describe.each(ciValues)('with the %s values', (name) => {
  const args = values(name);
  const bothPods = () => [podSpec(args), at(renderOne(args, 'Pod'), 'spec')];

  whenHelm(
    'helm template prints nothing else, and the configuration is valid with the variables of the pod',
    async () => {
      expect(template(args)).toMatchObject({ status: 0, stderr: '' });
      const names = list(container(args), 'env').map((variable) => at(variable, 'name'));
      const lookUp = (variable: string) => (names.includes(variable) ? 'a1'.repeat(32) : undefined);
      const file = folder.file(`${name}.yaml`, configText(args).replaceAll('/app/', root));
      const checked = await loadConfig(file, builtInOperations, { lookUp, skipFiles: true });
      expect('problems' in checked ? checked.problems : []).toEqual([]);
    },
  );

  whenHelm('every file of the configuration is in a mounted directory, or in the image', () => {
    const folders = list(container(args), 'volumeMounts').map((mount) => String(at(mount, 'mountPath')));
    // The image has it.
    const mounted = [...folders, '/app/config'];
    const homeless = filesNamed(configIn(args)).filter(
      (file) => !mounted.some((folder) => file === folder || file.startsWith(`${folder}/`)),
    );
    expect(homeless).toEqual([]);
  });

  whenHelm('pods meet the "restricted" Pod Security Standard, and have a share of the disk', () => {
    for (const pod of bothPods()) {
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
        for (const kind of ['requests', 'limits'])
          expect(at(one, 'resources', kind, 'ephemeral-storage')).toMatch(/^[1-9]/);
      }
      const kinds = list(pod, 'volumes').flatMap((volume) => Object.keys(record(volume)));
      const allowed = ['name', 'configMap', 'secret', 'projected', 'emptyDir'];
      expect(kinds.filter((kind) => !allowed.includes(kind))).toEqual([]);
      expect(at(pod, 'automountServiceAccountToken')).toBe(false);
      for (const key of ['hostNetwork', 'hostPID', 'hostIPC']) expect(at(pod, key)).toBeUndefined();
    }
  });
});

describe('the configuration', () => {
  whenHelm('has a trail and TLS of both ports from their Secrets only if the values have them', () => {
    const everything = values('everything');
    const tlsIn = (directory: string) => ({
      certFile: `${directory}/tls.crt`,
      keyFile: `${directory}/tls.key`,
      clientCaFile: `${directory}/ca.crt`,
      minVersion: '1.3',
    });
    expect(configIn(everything)).toMatchObject({
      audit: { directory: '/var/lib/audit', keyFile: '/etc/countersign/audit/trail.key', required: true },
      proxy: { tls: tlsIn('/etc/countersign/tls') },
      admin: { tls: tlsIn('/etc/countersign/admin-tls') },
    });
    const volumes = list(podSpec(everything), 'volumes');
    const secret = { secretName: 'signer-audit', defaultMode: 0o440 };
    expect(volumes).toContainEqual({ name: 'audit-key', secret });
    expect(volumes).toContainEqual({ name: 'audit', emptyDir: { sizeLimit: '256Mi' } });
    const toOutput = values('minimal', 'audit={"enabled":true,"secretName":"audit"}');
    expect(at(configIn(toOutput), 'audit')).toEqual({ keyFile: '/etc/countersign/audit/key' });
    expect(configText(values('minimal'))).not.toMatch(/audit|tls/);
  });

  whenHelm('has the listeners of container ports and Services', () => {
    const args = values('vault-kubernetes');
    const ports = { proxy: { host: '::', port: 8443 }, admin: { host: '::', port: 9090 } };
    expect(configIn(args)).toMatchObject(ports);
    expect(list(container(args), 'ports')).toMatchObject([
      { name: 'proxy', containerPort: 8443 },
      { name: 'admin', containerPort: 9090 },
    ]);
    const targets = (name: string) => list(renderOne(args, 'Service', name), 'spec', 'ports');
    expect(targets('pay-countersign')).toMatchObject([{ name: 'https', port: 8443, targetPort: 'proxy' }]);
    expect(targets('pay-countersign-admin')).toMatchObject([{ name: 'admin', targetPort: 'admin' }]);
  });

  whenHelm('admits every name of the Services and added ones, and keeps what is given', () => {
    const given = { tokenSha256: 'ab'.repeat(32), runbookUrl: 'https://wiki.example/runbook' };
    const settings = [
      'config.proxy.allowedHosts=["pay.internal"]',
      `config.admin=${JSON.stringify({ ...given, allowedHosts: ['metrics.internal'] })}`,
    ];
    const { proxy, admin } = record(configIn(values('minimal', ...settings)));
    const namesOf = (service: string) =>
      ['', '.payments', '.payments.svc', '.payments.svc.cluster.local'].map((domain) => service + domain);
    expect(proxy).toMatchObject({ allowedHosts: ['pay.internal', ...namesOf('pay-countersign')] });
    expect(admin).toMatchObject({
      ...given,
      host: '::',
      allowedHosts: ['metrics.internal', ...namesOf('pay-countersign-admin')],
    });
    const jwtFile = '/etc/countersign/secrets/jwt/token';
    const withFile = configIn(values('vault-kubernetes', `config.keys.vault.auth.jwtFile="${jwtFile}"`));
    expect(at(withFile, 'keys', 'vault', 'auth', 'jwtFile')).toBe(jwtFile);
  });

  whenHelm('has large numbers as numbers, and refers to secrets', () => {
    const text = configText(values('everything'));
    expect(text).toMatch(/^ +maxEntries: 2000000$/m);
    expect(text).toContain('roleId: ${VAULT_ROLE_ID}');
    const secretKeyRef = { name: 'countersign-approle', key: 'role_id', optional: false };
    const [variable] = list(container(values('everything')), 'env');
    expect(variable).toEqual({ name: 'VAULT_ROLE_ID', valueFrom: { secretKeyRef } });
  });

  whenHelm('changes the pods only if it changed', () => {
    const checksum = (...settings: string[]) => {
      const deployment = renderOne(values('minimal', ...settings), 'Deployment');
      return at(deployment, 'spec', 'template', 'metadata', 'annotations', 'checksum/config');
    };
    expect(checksum()).toMatch(/^[0-9a-f]{64}$/);
    expect(checksum('ports.proxy=8081')).not.toBe(checksum());
    expect(checksum('replicaCount=5')).toBe(checksum());
  });
});

describe('volumes', () => {
  const named = (name: string, ...all: string[]): unknown[] =>
    all
      .flatMap((one) => list(podSpec(values(one)), 'volumes'))
      .filter((volume) => at(volume, 'name') === name);
  const others = ['minimal', 'everything', 'directory-keys'];

  whenHelm('have the keys of each login in a separate directory, from a separate Secret', () => {
    const [keys] = named('keys', 'directory-keys');
    const items = ['control_key', 'private_key.pem'].map((key) => ({ key, path: `sandbox/acme/${key}` }));
    const secret = { name: 'countersign-sandbox-acme', items };
    expect(list(keys, 'projected', 'sources')).toContainEqual({ secret });
  });

  whenHelm('have a token with the audience of Vault only if the pod logs in with it', () => {
    const token = { path: 'token', audience: 'vault.internal', expirationSeconds: 1800 };
    expect(named('vault-token', 'vault-kubernetes')).toMatchObject([
      { projected: { defaultMode: 0o440, sources: [{ serviceAccountToken: token }] } },
    ]);
    expect(named('vault-token', ...others)).toEqual([]);
  });

  whenHelm('have token and CA of the Kubernetes API only if a JWT issuer names one of them', () => {
    const [volume] = named('kubernetes-api', 'vault-kubernetes');
    expect(list(volume, 'projected', 'sources')).toEqual([
      { serviceAccountToken: { path: 'token', expirationSeconds: 3600 } },
      { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
    ]);
    const mountPath = '/var/run/secrets/countersign/kubernetes-api';
    const mount = { name: 'kubernetes-api', mountPath, readOnly: true };
    expect(list(container(values('vault-kubernetes')), 'volumeMounts')).toContainEqual(mount);
    expect(named('kubernetes-api', ...others)).toEqual([]);
  });
});

describe('probes and the test hook', () => {
  whenHelm('use paths that the admin port serves, with HTTPS only if it has TLS', () => {
    const gets = (name: string) => probes.map((probe) => at(container(values(name)), probe, 'httpGet'));
    const urls = (name: string) =>
      list(renderOne(values(name), 'Pod'), 'spec', 'containers', 0, 'env').map((one) => at(one, 'value'));
    const paths = ['/healthz', '/healthz', '/readyz'];
    expect(gets('default')).toEqual(paths.map((path) => ({ path, port: 'admin', scheme: 'HTTP' })));
    expect(urls('default')).toContain('http://pay-countersign-admin.payments.svc:9090/readyz');
    expect(gets('everything')).toEqual(paths.map((path) => ({ path, port: 'admin', scheme: 'HTTPS' })));
    for (const part of ['https://payments-signer-admin.payments.svc:9091/readyz', '/admin-tls/ca.crt'])
      expect(urls('everything').join()).toContain(part);
  });

  whenHelm.each([
    [200, 0],
    [503, 1],
  ])('against a readiness of %d, the hook exits %d', async (readiness, status) => {
    const { port, close } = await listen(
      createServer(({ url }, response) => response.writeHead(url === '/readyz' ? readiness : 404).end()),
    );
    const pod = at(renderOne(values('default'), 'Pod'), 'spec', 'containers', 0);
    const [, ...command] = [...list(pod, 'command'), ...list(pod, 'args')].map(String);
    const origin = { PROXY_HOST: '127.0.0.1', PROXY_PORT: `${port}` };
    const env = { READY_URL: `http://127.0.0.1:${port}/readyz`, ...origin };
    expect(await once(spawn(process.execPath, command, { env }), 'exit')).toEqual([status, null]);
    await close();
  });
});

const request = 'config.environments.sandbox.timeouts.request';
const store = ['config.payments.once.store="rediss://r.example"', 'config.payments.once.keyFile="/k"'];

describe('the grace period', () => {
  // preStopSeconds + shutdown delay + 1 s + drain + twice the time for the store of claims + 1 s + 5 s.
  whenHelm.each([
    [['preStopSeconds=9'], 9 + 5 + 1 + 35 + 1 + 5, 'preStopSeconds (9)'],
    [['config.proxy.timeouts.shutdownDelay="1500ms"'], 5 + 2 + 1 + 35 + 1 + 5, 'shutdownDelay (1500ms)'],
    [['config.proxy.timeouts.shutdown="2m"'], 5 + 5 + 1 + 120 + 1 + 5, 'timeouts.shutdown (2m)'],
    [[`${request}="50s"`], 5 + 5 + 1 + 50 + 1 + 5, `${request} (50s)`],
    [['config.payments.once.store="memory"'], 5 + 5 + 1 + 35 + 1 + 5, '+ 1s to end + 5s in reserve.'],
    [store, 5 + 5 + 1 + 35 + 2 + 1 + 5, 'twice config.payments.once.timeout (1s)'],
    [[...store, 'config.payments.once.timeout="10s"'], 5 + 5 + 1 + 35 + 20 + 1 + 5, 'once.timeout (10s)'],
  ])('with %j has at least %d s, with %s', (settings, shortest, term) => {
    const given = values('minimal', ...settings, 'terminationGracePeriodSeconds=30');
    const { status, stderr } = template(given);
    expect([status, stderr]).toEqual([1, expect.stringContaining(`(30) must be at least ${shortest}: `)]);
    expect(stderr).toContain(term);
  });

  whenHelm('may be the sum of its terms, and one second less is rejected', () => {
    expect(template(values('minimal', 'terminationGracePeriodSeconds=51')).stderr).toContain(
      'must be at least 52: preStopSeconds (5) + config.proxy.timeouts.shutdownDelay (5s) + 1s to close idle connections + config.proxy.timeouts.shutdown (35s) + 1s to end + 5s in reserve.',
    );
    const pod = podSpec(values('minimal', 'terminationGracePeriodSeconds=52'));
    expect(at(pod, 'terminationGracePeriodSeconds')).toBe(52);
  });
});

describe('the Deployment', () => {
  whenHelm('runs as the user of the image, with the same command, and can pin the image', () => {
    const dockerfile = readFileSync('Dockerfile', 'utf8');
    const pod = podSpec(values('default'));
    const instructions = readStages(dockerfile).at(-1)?.instructions;
    const { runAsUser, runAsGroup } = record(pod, 'securityContext');
    expect(instructions?.find(({ name }) => name === 'USER')?.text).toBe(
      `${String(runAsUser)}:${String(runAsGroup)}`,
    );
    const [command, option] = execForm(dockerfile, 'CMD');
    const args = [command, option, '/etc/countersign/config/config.yaml'];
    expect(at(pod, 'containers', 0)).toMatchObject({ args, image: 'countersign:0.2.0' });
    expect(at(pod, 'containers', 0, 'command')).toBeUndefined();
    expect(at(container(values('vault-kubernetes')), 'image')).toBe(
      `registry.internal/payments/countersign:0.2.0@sha256:${'0'.repeat(64)}`,
    );
  });

  whenHelm('has the number of pods, unless an autoscaler sets it, and a disruption budget', () => {
    const everything = values('everything');
    expect(at(renderOne(values('default'), 'Deployment'), 'spec', 'replicas')).toBe(2);
    expect(at(renderOne(everything, 'Deployment'), 'spec', 'replicas')).toBeUndefined();
    const scaler = at(renderOne(everything, 'HorizontalPodAutoscaler'), 'spec');
    const scaleTargetRef = { kind: 'Deployment', name: 'payments-signer' };
    expect(scaler).toMatchObject({ scaleTargetRef, minReplicas: 3, maxReplicas: 12 });
    const metrics = list(scaler, 'metrics').map((metric) => at(metric, 'resource', 'name'));
    expect(metrics).toEqual(['cpu', 'memory']);
    const budget = values('default', 'podDisruptionBudget.maxUnavailable="25%"');
    expect(at(renderOne(budget, 'PodDisruptionBudget'), 'spec', 'maxUnavailable')).toBe('25%');
  });

  whenHelm('has the labels of every selector, and the test hook has not', () => {
    const everything = values('everything');
    const deployment = at(renderOne(everything, 'Deployment'), 'spec');
    const spread = list(podSpec(everything), 'topologySpreadConstraints');
    const selectors = [
      at(deployment, 'selector', 'matchLabels'),
      at(renderOne(everything, 'PodDisruptionBudget'), 'spec', 'selector', 'matchLabels'),
      at(renderOne(everything, 'NetworkPolicy'), 'spec', 'podSelector', 'matchLabels'),
      ...render(everything, 'Service').map((service) => at(service, 'spec', 'selector')),
      ...spread.map((one) => at(one, 'labelSelector', 'matchLabels')),
    ];
    expect(selectors).toHaveLength(6);
    for (const selector of selectors)
      expect(at(deployment, 'template', 'metadata', 'labels')).toMatchObject(record(selector));
    expect(at(renderOne(everything, 'Pod'), 'metadata', 'labels')).not.toMatchObject(record(selectors[0]));
  });
});
