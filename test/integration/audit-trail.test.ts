import { expect, it } from '@jest/globals';
import { auditIn, recordsIn } from '../support/audit.ts';
import { harness } from '../support/harness.ts';
import { until } from '../support/until.ts';

const starts = harness();

it('smoke', async () => {
  const folder = starts.folder();
  const audit = auditIn(folder);
  const proxy = await starts.edge({ config: { audit } });
  await proxy.transfer();
  await proxy.post('/nowhere');
  await proxy.stop();
  await until(() => recordsIn(audit.file).length > 3);
  console.log(recordsIn(audit.file));
  expect(1).toBe(1);
});
