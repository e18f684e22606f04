import { z } from 'zod';
import { codes } from './conditions.ts';
import { statusFacts, uncertainPayment } from './facts.ts';
import { severities } from './thresholds.ts';

const text = z.string();
/** `null`: there is none, or it is not known. */
const maybeText = text.nullable();

/** Texts are plain; what is between backticks is code. */
const finding = z.strictObject({
  severity: z
    .enum(severities)
    .describe('`bad` has to be dealt with now, `warn` soon; `info` is normal, such as a rotation.'),
  code: z.enum(codes).describe('Stable; see the table of findings.'),
  environment: maybeText.describe('null: it concerns all of them, or none.'),
  login: maybeText,
  caller: maybeText,
  summary: text.describe('What happened.'),
  advice: text.describe('What to do, or what it means.'),
  runbookSection: text.describe('Section of the runbook, such as `#countersignclockskew`.'),
  payments: z.array(uncertainPayment).describe('Each payment whose outcome has to be queried, newest first.'),
});

/** What `/status.json` returns. */
export const statusSchema = z.strictObject({
  ...statusFacts.shape,
  well: z
    .boolean()
    .describe('Whether this instance does its work: no finding is `bad`. One that is ready may not be well.'),
  findings: z.array(finding).describe('What needs attention or should be known, the most serious first.'),
});

export type Status = z.output<typeof statusSchema>;
export type Finding = Status['findings'][number];
