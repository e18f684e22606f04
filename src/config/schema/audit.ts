import { z } from 'zod';
import { filePath } from './values.ts';

/** One field for both targets, so that they cannot contradict each other. */
export const standardOutput = '-';

export const audit = z
  .strictObject({
    file: filePath.describe(
      'File of the audit trail, one for each process. It is created, or continued after its last record. `-` writes to standard output, between the log lines.',
    ),
    keyFile: filePath.describe(
      'File with the key that seals the records: at least 32 bytes. Read again at SIGHUP.',
    ),
    required: z
      .boolean()
      .default(false)
      .describe(
        'Send nothing to the gateway before its record is written; requests get 503 `audit-unavailable` while that is not possible.',
      ),
    sync: z
      .boolean()
      .default(false)
      .describe('Write records through to the disk (fdatasync), so that they also survive a power failure.'),
  })
  .refine(({ file, sync }) => !sync || file !== standardOutput, {
    path: ['sync'],
    message: 'needs a file: standard output cannot be written through to a disk',
  });
