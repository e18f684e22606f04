import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { expect, it } from '@jest/globals';
import { openAudit } from '../../../src/server/audit.ts';
import { auditIn, recordsIn } from '../../support/audit.ts';
import { harness } from '../../support/harness.ts';
import { until } from '../../support/until.ts';

const starts = harness();

function open(config: ReturnType<typeof auditIn>) {
  const ignored = (): void => {};
  return openAudit(
    { ...config, required: false, sync: false },
    {
      log: { message: ignored },
      metrics: {
        auditRecordsWritten: ignored,
        auditRecordsLost: ignored,
        auditRecordsOmitted: ignored,
        auditUp: ignored,
      },
      digest: 'digest',
      clock: Date.now,
      monotonic: () => performance.now(),
    },
  );
}

it('a renamed file is followed though the key cannot be read again', async () => {
  const config = auditIn(starts.folder());
  const audit = await open(config);
  await until(() => readFileSync(config.file, 'utf8') !== '');
  renameSync(config.file, `${config.file}.1`);
  writeFileSync(config.keyFile, 'too short');
  await expect(audit.reopen()).rejects.toThrow(/key/);
  await until(() => existsSync(config.file) && recordsIn(config.file).length === 1, 'a first record');
  await audit.close(2_000);
  expect(recordsIn(config.file)).toMatchObject([{ audit: 'start', continued: true }, { audit: 'stop' }]);
});

it('a record of a later start has the digest of the configuration that was applied last', async () => {
  const config = auditIn(starts.folder());
  const audit = await open(config);
  audit.configApplied('other');
  await until(() => recordsIn(config.file).length === 2, 'the configuration is recorded');
  renameSync(config.file, `${config.file}.1`);
  await audit.reopen();
  await until(() => existsSync(config.file) && recordsIn(config.file).length === 1, 'a first record');
  await audit.close(2_000);
  expect(recordsIn(`${config.file}.1`)).toMatchObject([
    { audit: 'start', config: 'digest' },
    { audit: 'config', config: 'other' },
  ]);
  expect(recordsIn(config.file)).toMatchObject([{ audit: 'start', config: 'other' }, { audit: 'stop' }]);
});
