import type { ErrorCode } from 'yaml';

/** In own words, because the parser's quote the text, in which there might be a secret. */
const faults: Readonly<Partial<Record<ErrorCode, string>>> = {
  BAD_ALIAS: 'refers to an anchor (&name) that does not stand above it',
  BAD_COLLECTION_TYPE: 'has a tag (!name): remove it',
  BAD_DQ_ESCAPE: 'has a "\\" in double quotes that is no escape: write "\\\\", or use single quotes',
  BAD_INDENT: 'is not indented like its neighbours, or a bracket is not closed',
  BAD_SCALAR_START: 'begins with a character that YAML keeps for itself: put the value in quotes',
  BLOCK_AS_IMPLICIT_KEY: 'has a second ":" on the line: put the value in quotes, or begin a new line',
  DUPLICATE_KEY: 'is a key that stands here already: remove one of the two',
  MISSING_CHAR: 'lacks a quote, bracket, comma, colon or space',
  MULTILINE_IMPLICIT_KEY: 'is a key without ":" after it, or a value that is not indented',
  MULTIPLE_DOCS: 'begins a second document: remove the "---"',
  NON_STRING_KEY: 'is a key that is no text: put it in quotes',
  RESOURCE_EXHAUSTION: 'is nested too deeply',
  TAB_AS_INDENT: 'is indented with a tab: use spaces',
  TAG_RESOLVE_FAILED: 'has a tag (!name): remove it, or put the value in quotes',
};

export function faultText(code: ErrorCode): string {
  return faults[code] ?? 'is not valid YAML: look for a missing quote, bracket or colon here or just above';
}
