import { type Agreement, type Ended, isRejected, type Notices } from './facts.ts';

/** Milliseconds after which it is late. */
const late = 2_000;
/** Milliseconds after an illness of Vault in which what fails is its fault. */
const convalescence = 3_000;

interface Figure {
  readonly name: string;
  /** Whether the promises exclude it where gateway, callers and Vault are as they should be. */
  readonly isBroken: boolean;
}

const figure = (name: string, isBroken = false): Figure => ({ name, isBroken });

interface Circumstances {
  readonly agreement: Agreement;
  readonly notices: Notices;
  readonly bornAt: number;
  readonly keysNow: readonly string[];
  /** Milliseconds on the way to the gateway and back at most. */
  readonly roundTrip: number;
}

/** Why a request of the login that rotates was rejected although nothing is wrong with it; `undefined`: it was not. */
export function figureOf(ended: Ended, about: Circumstances): Figure | undefined {
  if (!isRejected(ended.end) || ended.last === undefined) return undefined;
  const { operation } = ended.form;
  const { agreement } = about;
  if (!agreement.gateway.agrees) return figure(`${operation} 403: nodes disagree`);
  if (agreement.since === undefined) return figure(`${operation} 403: Vault lacks the key`);
  if (!agreement.vault.isWellFor(convalescence)) return figure(`${operation} 403: Vault is ill`);
  return operation === 'query' ? query(ended, about) : payment(ended, about);
}

function query({ startedAt, keysBefore }: Ended, { agreement, bornAt, roundTrip }: Circumstances): Figure {
  const after = startedAt - agreement.forInstance(bornAt);
  if (after > late + roundTrip)
    return figure('query 403: later than 2 s after gateway and Vault agree', true);
  const hadIt =
    startedAt > (agreement.since ?? startedAt) && keysBefore.some((key) => agreement.gateway.accepts(key));
  if (hadIt) return figure('query 403: earlier, although the ring had the key', true);
  return figure('query 403: earlier');
}

function payment({ form, last }: Ended, { agreement, notices, bornAt, keysNow }: Circumstances): Figure {
  const { key = '', sentAt = 0, isTrial = false, isBesideTrial = false } = last ?? {};
  const since = agreement.forInstance(bornAt);
  const { gateway } = agreement;
  const noticed = notices.ofKey(key, since);
  if (sentAt <= since || gateway.accepts(key) || noticed === undefined || noticed > sentAt)
    return figure('payment 403: first notice, or in flight');
  if (sentAt - since <= late) return figure('payment 403: with a rejected key, earlier than 2 s');
  const own = notices.ofPlace(form, since);
  const isBroken = !isTrial && !isBesideTrial && own !== undefined && sentAt - own > late;
  if (keysNow.some((one) => gateway.accepts(one)))
    return figure(
      'payment 403: with a rejected key for more than 2 s, a better one is in the ring',
      isBroken,
    );
  return figure('payment 403: with a rejected key for more than 2 s, the ring is late', isBroken);
}

/** Counts by family and figure. */
export class Figures {
  readonly #counts = new Map<string, number>();

  add(name: string, count = 1): void {
    this.#counts.set(name, this.of(name) + count);
  }

  of(name: string): number {
    return this.#counts.get(name) ?? 0;
  }

  addAll(others: Figures, family: string): void {
    for (const [name, count] of others.#counts) this.add(`${family}: ${name}`, count);
  }

  table(): string {
    const names = [...this.#counts.keys()].toSorted();
    return names.map((name) => `${String(this.of(name)).padStart(10)}  ${name}`).join('\n');
  }
}
