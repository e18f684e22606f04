/**
 * The weights of an `Accept` header (RFC 9110 section 12.5.1) by media range, in the order sent. Parameters other than `q`
 * do not matter: of ranges that differ only in these, the best one counts. A type with the suffix `+json` is JSON (RFC 6839
 * section 3.1).
 */
export class AcceptedTypes {
  readonly #weights = new Map<string, number>();

  /** @param accept absent: everything is accepted */
  constructor(accept = '*/*') {
    // Quoted strings may contain separators, and do not matter. One that is not closed extends to the end.
    const unquoted = accept.toLowerCase().replaceAll(/"(?:[^"\\]|\\.)*"?/g, '""');
    for (const range of unquoted.split(',')) {
      const [name = '', ...parameters] = range.split(';').map((part) => part.trim());
      const type = /^[^/\s]+\/[^/\s]+\+json$/.test(name) ? 'application/json' : name;
      this.#weights.set(type, Math.max(weightIn(parameters), this.#weights.get(type) ?? 0));
    }
  }

  /** From 0, not acceptable, to 1. The most specific range decides. */
  weightOf(type: string): number {
    const ranges = [type, type.replace(/\/.*/, '/*'), '*/*'];
    return ranges.map((range) => this.#weights.get(range)).find((weight) => weight !== undefined) ?? 0;
  }

  /** The first of these types that is named itself, not by a wildcard. */
  firstNamed(...types: readonly string[]): string | undefined {
    return [...this.#weights.keys()].find((range) => types.includes(range));
  }
}

/** A weight that is not one of RFC 9110 section 12.4.2 does not make a format acceptable. */
function weightIn(parameters: readonly string[]): number {
  const weight = parameters.find((parameter) => parameter.startsWith('q=')) ?? 'q=1';
  return /^q=(0(\.\d{0,3})?|1(\.0{0,3})?)$/.test(weight) ? Number(weight.slice(2)) : 0;
}
