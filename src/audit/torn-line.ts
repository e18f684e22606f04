/** The whole end of a record. What is cut off never contains it: within a text of JSON its quotation marks are escaped. */
const seal = /,"mac":"[0-9a-f]{64}"\}/;

/** Whether a crash can have left this line after the last record: the beginning of a record, or zeros of a power failure. */
export function isTorn(line: Buffer): boolean {
  return line[0] === 0 || isBeginning(line, '{"audit":"');
}

/** Whether a process that was killed while it wrote its first record can have left this line. */
export function isTornStart(line: Buffer): boolean {
  return isBeginning(line, '{"audit":"start",');
}

function isBeginning(line: Buffer, start: string): boolean {
  const text = line.toString('latin1', 0, start.length);
  return text !== '' && start.startsWith(text) && !isWhole(line.toString('latin1'));
}

function isWhole(text: string): boolean {
  return seal.test(text) || isJson(text);
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
