import type { ErrorCode } from 'yaml';

/** Our own texts: the parser's messages quote the file, which may contain a secret. */
const messages: Readonly<Partial<Record<ErrorCode, string>>> = {
  BAD_ALIAS: 'refers to an anchor (&name) that is not defined above it',
  BAD_COLLECTION_TYPE: 'has a tag (!name): remove it',
  BAD_DQ_ESCAPE: 'has an invalid escape in double quotes: write "\\\\" for a backslash, or use single quotes',
  BAD_INDENT: 'is not indented like its siblings, or has a bracket that is not closed',
  BAD_SCALAR_START: 'starts with a character that YAML reserves: put the value in quotes',
  BLOCK_AS_IMPLICIT_KEY: 'has a second ":" (put the value in quotes), or the next line is indented too far',
  DUPLICATE_KEY: 'duplicate key: remove one of the two',
  MISSING_CHAR: 'is missing a quote, bracket, comma, colon or space',
  MULTILINE_IMPLICIT_KEY: 'is a key without ":" after it, or a value that is not indented',
  MULTIPLE_DOCS: 'starts a second document: remove the "---"',
  NON_STRING_KEY: 'key must be a string: put it in quotes',
  RESOURCE_EXHAUSTION: 'is nested too deeply',
  TAB_AS_INDENT: 'is indented with a tab: use spaces',
  TAG_RESOLVE_FAILED: 'has a tag (!name): remove it, or put the value in quotes',
};

export function yamlMessage(code: ErrorCode): string {
  return messages[code] ?? 'is not valid YAML: look for a missing quote, bracket or colon here or just above';
}
