import { globSync } from 'node:fs';
import { expect } from '@jest/globals';
import { promtool } from '../support/promtool.ts';
import { itWith } from '../support/requires.ts';

const testFiles = globSync('deploy/prometheus/*.test.yaml').sort();

itWith('promtool')(
  'promtool passes the tests of the rules',
  () => {
    expect(testFiles).not.toEqual([]);
    const { status, output } = promtool(['test', 'rules', ...testFiles]);
    expect(output).not.toContain('FAILED');
    expect(status).toBe(0);
  },
  60_000,
);
