import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from '@jest/globals';
import { parse, stringify } from 'yaml';
import { at, chart, list, record, render, renderOne, template, values } from '../support/helm.ts';
import { promtool } from '../support/promtool.ts';
import { itWith } from '../support/requires.ts';

const whenHelm = itWith('helm');
const folder = mkdtempSync(join(tmpdir(), 'countersign-rules-'));
afterAll(() => rmSync(folder, { recursive: true }));
const everything = values('everything');
const namesIn = (folder: string, ending: string) =>
  readdirSync(folder)
    .filter((name) => name.endsWith(ending))
    .sort();

/** Every group of the rule files. */
const groups = namesIn('deploy/prometheus', '.rules.yaml')
  .map((name): unknown => parse(readFileSync(join('deploy/prometheus', name), 'utf8')))
  .flatMap((file) => list(file, 'groups'));

it('the chart has dashboards and rules as links, without copies', () => {
  expect(readlinkSync(join(chart, 'files/dashboards'))).toBe('../../../deploy/grafana');
  expect(readlinkSync(join(chart, 'files/prometheus'))).toBe('../../../deploy/prometheus');
});

whenHelm('every dashboard becomes a ConfigMap that the Grafana sidecar finds', () => {
  const maps = render(everything, 'ConfigMap').filter(
    (map) => at(map, 'metadata', 'labels', 'grafana_dashboard') === '1',
  );
  const files = namesIn('deploy/grafana', '.json');
  expect(files).not.toEqual([]);
  const carried = maps.flatMap((map) => Object.entries(record(map, 'data')));
  expect(carried.map(([name]) => name).sort()).toEqual(files.map((name) => `countersign-${name}`));
  for (const [name, text] of carried) {
    expect(JSON.parse(String(text))).toEqual(
      JSON.parse(readFileSync(join('deploy/grafana', name.replace('countersign-', '')), 'utf8')),
    );
  }
  expect(maps.map((map) => at(map, 'metadata', 'annotations', 'grafana_folder'))).toEqual(
    files.map(() => 'Payments'),
  );
});

whenHelm('the PrometheusRule holds every group of the rule files, unchanged', () => {
  expect(groups).not.toEqual([]);
  expect(list(renderOne(everything, 'PrometheusRule'), 'spec', 'groups')).toEqual(groups);
});

whenHelm('the PrometheusRule has ten alerts by default', () => {
  const rendered = renderOne([...values('default'), '--set=prometheusRule.enabled=true'], 'PrometheusRule');
  const alerts = list(rendered, 'spec', 'groups').flatMap((group) => list(group, 'rules'));
  const names = new Set(alerts.map((rule) => at(rule, 'alert')).filter((name) => name !== undefined));
  expect(names.size).toBe(10);
});

/** Each threshold of the rule files: name, number and marked line. */
const thresholds = namesIn('deploy/prometheus', '.rules.yaml')
  .flatMap((name) => readFileSync(join('deploy/prometheus', name), 'utf8').split('\n'))
  .flatMap((line) => {
    const [code = '', marks = ''] = line.split(' # threshold: ');
    return [...marks.matchAll(/(\w+)=([\d.]+)/g)].map(([, name = '', number = '']) => ({
      name,
      number,
      code,
    }));
  });
const expressionsIn = (ofGroups: unknown[]): string[] =>
  ofGroups.flatMap((group) => list(group, 'rules')).map((rule) => String(at(rule, 'expr')));
const expressions = expressionsIn(groups);

it('every number that an alert compares with, except 0 and 1, is a threshold', () => {
  const lines = namesIn('deploy/prometheus', '.rules.yaml').flatMap((name) =>
    readFileSync(join('deploy/prometheus', name), 'utf8').split('\n'),
  );
  const unmarked = lines.filter((line) => /^ [^#]*[<>]=? (?![01]$)[\d.]+[^#]*$/.test(line));
  expect(unmarked).toEqual([]);
});

it('each threshold is unique in its line, and has the same number in the values', () => {
  const defaults = at(
    parse(readFileSync(join(chart, 'values.yaml'), 'utf8')),
    'prometheusRule',
    'thresholds',
  );
  expect(Object.fromEntries(thresholds.map(({ name, number }) => [name, Number(number)]))).toEqual(defaults);
  for (const { number, code } of thresholds) {
    expect(code.split(/[ (),]+/).filter((word) => word === number)).toEqual([number]);
  }
});

whenHelm.each([...new Map(thresholds.map((one) => [one.name, one]))])(
  'the value of threshold %s changes only its number',
  (name, { number }) => {
    const other = Number(number) / 2;
    const given = ['--set-json', `prometheusRule.thresholds.${name}=${other}`];
    const rendered = renderOne([...everything, ...given], 'PrometheusRule');
    const changed = expressionsIn(list(rendered, 'spec', 'groups'));
    const expected = expressions.map((expr) =>
      expr
        .split('\n')
        .map((line) => {
          const [code = '', marks = ''] = line.split(' # threshold: ');
          if (!marks.split(' ').includes(`${name}=${number}`)) return line;
          const words = code.replace(
            new RegExp(`(?<=[ (])${number.replace('.', '\\.')}(?=[ ,)]|$)`),
            String(other),
          );
          return `${words} # threshold: ${marks.replace(`${name}=${number}`, `${name}=${other}`)}`;
        })
        .join('\n'),
    );
    expect(changed).toEqual(expected);
    expect(changed).not.toEqual(expressions);
  },
);

whenHelm.each([
  ['an unknown threshold', 'clockSkewMinutes=1', "additional properties 'clockSkewMinutes' not allowed"],
  ['a ratio above 1', 'saturationRatio=80', '/prometheusRule/thresholds/saturationRatio'],
])('the chart rejects %s', (_what, setting, message) => {
  const rendered = template([...everything, '--set-json', `prometheusRule.thresholds.${setting}`]);
  expect(rendered.status).toBe(1);
  expect(rendered.stderr).toContain(message);
});

whenHelm('the runbook prefix is added to every runbook_url', () => {
  const prefix = 'https://git.internal/payments/countersign/blob/main/';
  const urls = (args: readonly string[]) =>
    list(renderOne([...everything, ...args], 'PrometheusRule'), 'spec', 'groups')
      .flatMap((group) => list(group, 'rules'))
      .map((rule) => at(rule, 'annotations', 'runbook_url'))
      .filter((url) => typeof url === 'string');
  expect(urls([]).length).toBeGreaterThan(10);
  expect(urls([`--set=prometheusRule.runbookUrlPrefix=${prefix}`])).toEqual(
    urls([]).map((url) => `${prefix}${url}`),
  );
});

if (whenHelm === it) {
  itWith('promtool')('promtool accepts the rendered rules', () => {
    const file = join(folder, 'rules.yaml');
    const given = ['--set-json', 'prometheusRule.thresholds.clockSkewSeconds=0.000001'];
    writeFileSync(file, stringify(at(renderOne([...everything, ...given], 'PrometheusRule'), 'spec')));
    const { status, output } = promtool(['check', 'rules', file]);
    expect(output).toContain('SUCCESS');
    expect(status).toBe(0);
  });
}

whenHelm.each([
  ['', 'pay-countersign-admin'],
  ['--set=nameOverride=signer', 'pay-signer-admin'],
  ['--set=fullnameOverride=gate', 'gate-admin'],
])('the ServiceMonitor selects only the admin Service, and the job is countersign %s', (override, name) => {
  const args = [
    ...values('default'),
    '--set=serviceMonitor.enabled=true',
    ...(override === '' ? [] : [override]),
  ];
  const monitor = renderOne(args, 'ServiceMonitor');
  const selector = record(monitor, 'spec', 'selector', 'matchLabels');
  const found = render(args, 'Service').filter((service) =>
    Object.entries(selector).every(([key, value]) => at(service, 'metadata', 'labels', key) === value),
  );
  expect(found.map((service) => at(service, 'metadata', 'name'))).toEqual([name]);
  const [endpoint] = list(monitor, 'spec', 'endpoints');
  expect(endpoint).toMatchObject({ port: at(found[0], 'spec', 'ports', 0, 'name'), path: '/metrics' });
  expect(list(endpoint, 'relabelings')).toEqual([
    { targetLabel: 'job', replacement: 'countersign' },
    {
      sourceLabels: ['__meta_kubernetes_service_label_app_kubernetes_io_instance'],
      targetLabel: 'release',
    },
  ]);
  expect(at(found[0], 'metadata', 'labels', 'app.kubernetes.io/instance')).toBe('pay');
  expect(at(monitor, 'spec', 'jobLabel')).toBeUndefined();
});

whenHelm('the ServiceMonitor verifies the admin port with TLS, and presents the given certificate', () => {
  const [endpoint] = list(renderOne(everything, 'ServiceMonitor'), 'spec', 'endpoints');
  expect(endpoint).toMatchObject({
    scheme: 'https',
    tlsConfig: {
      ca: { secret: { name: 'signer-admin-tls', key: 'ca.crt' } },
      serverName: 'payments-signer-admin.payments.svc',
      cert: { secret: { name: 'prometheus-client', key: 'tls.crt' } },
      keySecret: { name: 'prometheus-client', key: 'tls.key' },
    },
  });
  const plain = renderOne([...values('default'), '--set=serviceMonitor.enabled=true'], 'ServiceMonitor');
  const [without] = list(plain, 'spec', 'endpoints');
  expect([at(without, 'scheme'), at(without, 'tlsConfig')]).toEqual([undefined, undefined]);
});

whenHelm('relabelings of the values follow those that set job and release', () => {
  const [endpoint] = list(renderOne(everything, 'ServiceMonitor'), 'spec', 'endpoints');
  expect(list(endpoint, 'relabelings')).toEqual([
    expect.objectContaining({ targetLabel: 'job' }),
    expect.objectContaining({ targetLabel: 'release' }),
    { action: 'labeldrop', regex: 'endpoint' },
  ]);
});

whenHelm('objects of the Prometheus operator are rendered only if enabled', () => {
  const kinds = render(values('default')).map((object) => at(object, 'kind'));
  expect(kinds).not.toContain('ServiceMonitor');
  expect(kinds).not.toContain('PrometheusRule');
});
