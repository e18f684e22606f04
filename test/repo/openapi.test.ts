import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it } from '@jest/globals';
import { Validator } from '@seriousme/openapi-schema-validator';
import { openApiDocument } from '../../scripts/docs/openapi.ts';
import { Folder } from '../support/folder.ts';
import { describeWith } from '../support/requires.ts';
import { root } from '../support/sources.ts';

const text = readFileSync(join(root, 'docs/openapi.yaml'), 'utf8');

it('docs/openapi.yaml is current (npm run generate)', () => {
  expect(openApiDocument()).toBe(text);
});

it('docs/openapi.yaml is valid OpenAPI 3.1', async () => {
  const validator = new Validator();
  expect(await validator.validate(text)).toEqual({ valid: true });
  expect(validator.version).toBe('3.1');
});

it('the validator finds a mistake', async () => {
  const wrong = text.replace('in: path', 'in: somewhere');
  expect(await new Validator().validate(wrong)).toMatchObject({ valid: false });
});

describeWith('redocly')('the linter', () => {
  const folder = new Folder();
  afterAll(() => folder.remove());

  function lint(document: string): { status: number | null; printed: string } {
    const { status, stdout, stderr } = spawnSync(
      'redocly',
      ['lint', folder.file('openapi.yaml', document), '--extends=recommended', '--format=stylish'],
      {
        encoding: 'utf8',
        env: { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' },
      },
    );
    return { status, printed: stdout + stderr };
  }

  it('reports neither errors nor warnings', () => {
    const { status, printed } = lint(text);
    expect([status, printed]).toEqual([0, expect.stringContaining('API description is valid')]);
    expect(printed).not.toMatch(/\bwarn/i);
  });

  it('finds an operation without a summary', () => {
    const { status, printed } = lint(text.replace(/^ *summary: Transfer\n/m, ''));
    expect([status, printed]).toEqual([1, expect.stringContaining('operation-summary')]);
  });
});
