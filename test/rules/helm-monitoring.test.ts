import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from '@jest/globals';
import { parse, stringify } from 'yaml';
import { at, chart, list, record, render, renderOne, values } from '../support/helm.ts';
import { itWith } from '../support/programs.ts';
import { promtool } from '../support/promtool.ts';

const whenHelm = itWith('helm');
const folder = mkdtempSync(join(tmpdir(), 'countersign-rules-'));
afterAll(() => rmSync(folder, { recursive: true }));
const everything = values('everything');
const namesIn = (folder: string, ending: string) =>
  readdirSync(folder)
    .filter((name) => name.endsWith(ending))
    .sort();

it('the chart carries dashboards and rules as links, so that there is one copy of each', () => {
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
  const groups = namesIn('deploy/prometheus', '.rules.yaml')
    .map((name): unknown => parse(readFileSync(join('deploy/prometheus', name), 'utf8')))
    .flatMap((file) => list(file, 'groups'));
  expect(groups).not.toEqual([]);
  expect(list(renderOne(everything, 'PrometheusRule'), 'spec', 'groups')).toEqual(groups);
});

if (whenHelm === it) {
  itWith('promtool')('promtool accepts the rendered rules', () => {
    const file = join(folder, 'rules.yaml');
    writeFileSync(file, stringify(at(renderOne(everything, 'PrometheusRule'), 'spec')));
    const { status, output } = promtool(['check', 'rules', file]);
    expect(output).toContain('SUCCESS');
    expect(status).toBe(0);
  });
}

whenHelm.each([
  ['', 'pay-countersign-admin'],
  ['--set=nameOverride=signer', 'pay-signer-admin'],
  ['--set=fullnameOverride=gate', 'gate-admin'],
])('the ServiceMonitor finds the admin Service alone, and calls the job countersign %s', (override, name) => {
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

whenHelm('relabelings of the values come after those that set job and release', () => {
  const [endpoint] = list(renderOne(everything, 'ServiceMonitor'), 'spec', 'endpoints');
  expect(list(endpoint, 'relabelings')).toEqual([
    expect.objectContaining({ targetLabel: 'job' }),
    expect.objectContaining({ targetLabel: 'release' }),
    { action: 'labeldrop', regex: 'endpoint' },
  ]);
});

whenHelm('nothing that needs the Prometheus operator is rendered unless it is asked for', () => {
  const kinds = render(values('default')).map((object) => at(object, 'kind'));
  expect(kinds).not.toContain('ServiceMonitor');
  expect(kinds).not.toContain('PrometheusRule');
});
