import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { AuditChain, genesis, type Head, parseRecord } from '../../src/audit/chain.ts';
import { auditKey } from '../../src/audit/key.ts';
import { type Defect, Verifier, type VerifierOptions } from '../../src/audit/verifier.ts';
import type { Folder } from './folder.ts';

/** 64 hex digits, as of `openssl rand -hex 32`. */
export const auditKeyText = '5b1f'.repeat(16);

/** The audit section of a configuration, with its key, in this folder. */
export function auditIn(folder: Folder): { directory: string; keyFile: string } {
  const directory = folder.at('audit');
  mkdirSync(directory, { recursive: true });
  return { directory, keyFile: folder.file('audit.key', `${auditKeyText}\n`) };
}

/** The files of a trail, in order. */
export function auditFilesIn(directory: string): string[] {
  return readdirSync(directory)
    .sort()
    .map((file) => join(directory, file));
}

export type AuditFields = Readonly<Record<string, unknown>>;

/** The records of all files of a trail. */
export function recordsIn(directory: string): AuditFields[] {
  return auditFilesIn(directory).flatMap((file) => recordsOf(readFileSync(file, 'utf8')));
}

/** The records among the lines of a text. */
export function recordsOf(text: string): AuditFields[] {
  const lines = text.split('\n').filter((line) => line.startsWith('{"audit":"'));
  return lines.map((line): AuditFields => JSON.parse(line));
}

/** The lines of a trail: a start record, then a request after the other, each with an intent and a result. */
export function trailLines(
  requests: number,
  { key = testAuditKey, instance = 'pod-a', after = genesis } = {},
) {
  const chain = new AuditChain(key, instance, after);
  const lines = [chain.seal('start', '"time":"2026-01-15T12:00:00.000Z"')];
  for (let id = 1; id <= requests; id += 1) {
    const common = `"time":"2026-01-15T12:00:01.000Z","request":"request-${id}"`;
    lines.push(chain.seal('intent', `${common},"login":"acme","nonce":"${id}"`));
    lines.push(chain.seal('result', `${common},"outcome":"answered","attempts":1`));
  }
  return lines;
}

export const testAuditKey = auditKey(Buffer.from(auditKeyText));
export const otherAuditKey = auditKey(Buffer.from('c0de'.repeat(16)));

export type TestFile = readonly string[];

/** Verifies files, each given as its lines. @returns the defect as FILE:LINE: message, with files named from 1 */
export function verifyFiles(files: readonly TestFile[], options: Partial<VerifierOptions> = {}) {
  const verifier = new Verifier({ keys: [testAuditKey], ...options });
  const defect = defectIn(files, verifier) ?? verifier.endTrail() ?? verifier.end();
  const place = defect?.file === undefined ? '' : `${defect.file}:${defect.line}: `;
  return { summary: verifier.summary, defect: defect && `${place}${defect.message}` };
}

function defectIn(files: readonly TestFile[], verifier: Verifier): Defect | undefined {
  for (const [index, lines] of files.entries()) {
    for (const [at, line] of lines.entries()) {
      const isOpen = !line.endsWith('\n');
      const bytes = Buffer.from(isOpen ? line : line.slice(0, -1));
      const defect = verifier.add(bytes, { file: String(index + 1), line: at + 1 }, isOpen);
      if (defect !== undefined) return defect;
    }
  }
  return undefined;
}

/** The head after a line. */
export function headOf(line: string | undefined): Head {
  const record = parseRecord(Buffer.from((line ?? '').trimEnd()));
  if (record === undefined) throw new TypeError('not a record');
  return { sequence: record.sequence, mac: record.mac };
}
