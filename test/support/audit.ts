import { readFileSync } from 'node:fs';
import type { Folder } from './folder.ts';

/** 64 hex digits, as of `openssl rand -hex 32`. */
export const auditKeyText = '5b1f'.repeat(16);

/** The audit section of a configuration, with its key, in this folder. */
export function auditIn(folder: Folder): { file: string; keyFile: string } {
  return { file: folder.at('audit.jsonl'), keyFile: folder.file('audit.key', `${auditKeyText}\n`) };
}

export type AuditFields = Readonly<Record<string, unknown>>;

/** The records of an audit file. */
export function recordsIn(file: string): AuditFields[] {
  return recordsOf(readFileSync(file, 'utf8'));
}

/** The records among the lines of a text. */
export function recordsOf(text: string): AuditFields[] {
  const lines = text.split('\n').filter((line) => line.startsWith('{"audit":"'));
  return lines.map((line): AuditFields => JSON.parse(line));
}
