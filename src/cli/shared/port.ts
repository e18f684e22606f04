/** Completes a sentence that begins with the name of an option or a variable. */
export const portRule = 'must be a port from 0 to 65535; 0 picks a free one';

export function parsePort(text: string): number | undefined {
  return /^\d{1,5}$/.test(text) && Number(text) <= 65_535 ? Number(text) : undefined;
}

/** @throws Error that names the option */
export function portFrom(option: string, text: string): number {
  const port = parsePort(text);
  if (port === undefined) throw new Error(`${option} ${portRule}`);
  return port;
}
