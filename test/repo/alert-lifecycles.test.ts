import { afterAll, expect, it } from '@jest/globals';
import { alertLifecycles } from '../support/alert-lifecycles.ts';

const lifecycles = alertLifecycles('deploy/prometheus');

// promtool runs these tests in alerts.test.ts.
afterAll(() => {
  const rows = lifecycles.map(({ alert, severity, test }) =>
    [alert, severity, test?.fires, test?.resolves, test?.name]
      .map((cell) => cell ?? 'NOT TESTED')
      .join(' | '),
  );
  const heads = [
    'alert | severity | fires when caused, at | resolves when fixed, at | promtool test',
    '---|---|---|---|---',
  ];
  process.stdout.write([...heads, ...rows, ''].join('\n'));
});

it.each(lifecycles)('$alert fires when caused and resolves when fixed, in one promtool test', ({ test }) => {
  expect(test).toBeDefined();
});

it('covers the alerts of all rule files', () => {
  expect(lifecycles).not.toEqual([]);
});
