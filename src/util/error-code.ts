/** The `code` of an error of Node, such as `ECONNREFUSED`; `undefined` if it has none. */
export function errorCode(error: unknown): string | undefined {
  const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
  return typeof code === 'string' ? code : undefined;
}

/** Whether Node's HTTP parser rejected what was received. Codes of its errors begin with HPE. */
export function isParserError(error: unknown): boolean {
  return errorCode(error)?.startsWith('HPE_') ?? false;
}
