/** A command of a terminal session in a page, and its output there. */
export interface Step {
  readonly command: string;
  readonly output: string;
}

/** The blocks of a Markdown page in one language; `info` is the rest of the line after the language. */
export function blocksOf(page: string, language: string): { info: string; text: string }[] {
  return [...page.matchAll(/^```(\w+)(?: ([^\n]*))?\n([^]*?)^```$/gm)]
    .filter(([, name]) => name === language)
    .map(([, , info = '', text = '']) => ({ info, text }));
}

/** A session: lines after `$ ` are commands, the others their output. `\` continues a command. */
export function stepsOf(session: string): Step[] {
  return session
    .split(/^\$ /m)
    .slice(1)
    .map((text) => {
      const [, command = '', output = ''] = /^((?:[^\n]*\\\n)*[^\n]*)\n?([^]*)$/.exec(text) ?? [];
      return { command, output: output.trimEnd() };
    });
}

/** Replaces what differs from run to run by its kind, and leaves out what bin/with-node says of an old Node. */
export function normalized(text: string): string {
  return text
    .replace(/^Countersign uses the Node that npm installed with it.*\n/gm, '')
    .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<uuid>')
    .replace(/\b[0-9a-f]{64}\b/g, '<sha256>')
    .replace(/(oauth_(?:nonce|timestamp)%3D)\w+/g, '$1<value>')
    .replace(/("(?:timestamp|clock)": ?)\d{10}\b/g, '$1<seconds>')
    .replace(/oauth_signature="[^"]*"/g, 'oauth_signature="<signature>"')
    .replace(/\d{4}-\d{2}-\d{2}([T ])\d{2}:\d{2}:\d{2}(\.\d{3})?( UTC|Z)/g, '<time>')
    .replace(/(version |"keyVersion":)\d{10}\b/g, '$1<seconds>')
    .replace(/^ *\d+ s {2}/gm, '<duration>  ')
    .replace(/^Queries: \d+/gm, 'Queries: <number>')
    .replace(/(gw-order-id"?[=:]"?)9\d{5}/g, '$1<order>')
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n')
    .trimEnd();
}
