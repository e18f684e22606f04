import { type Action, isPayment, type Schedule } from './schedule.ts';

/** Counts of events, which show what the schedules contain. */
export class Counts {
  readonly #counts = new Map<string, number>();

  add(name: string, count = 1): void {
    this.#counts.set(name, this.of(name) + count);
  }

  of(name: string): number {
    return this.#counts.get(name) ?? 0;
  }

  addAll(other: Counts): void {
    for (const [name, count] of other.#counts) this.add(name, count);
  }

  /** Counts the steps of a schedule. */
  addSchedule({ canary, instances, nodes, steps }: Schedule): void {
    this.add(`schedules ${canary ? 'with' : 'without'} the canary`);
    this.add(`schedules of ${instances} ${instances === 1 ? 'instance' : 'instances'}`);
    this.add(`schedules of ${nodes} ${nodes === 1 ? 'gateway node' : 'gateway nodes'}`);
    for (const { action } of steps) for (const name of namesOf(action)) this.add(name);
  }

  /** One line each, in alphabetical order. */
  table(): string {
    const rows = [...this.#counts].toSorted(([a], [b]) => (a < b ? -1 : 1));
    const width = Math.max(0, ...rows.map(([name]) => name.length));
    return rows.map(([name, count]) => `  ${name.padEnd(width)}  ${String(count).padStart(10)}\n`).join('');
  }
}

function namesOf(action: Action): readonly string[] {
  switch (action.do) {
    case 'vault-write':
      return [
        `vault-write, ${action.control !== undefined && action.rsa !== undefined ? 'both keys' : 'one key'}`,
      ];
    case 'vault-outage':
      return [`vault-outage, ${action.down ? 'begins' : 'ends'}`];
    case 'gateway-accept':
      return [
        `gateway-accept, ${action.keys.length > 1 ? 'with two keys' : 'one key'}`,
        `gateway-accept, ${action.kind === 'control_key' ? 'HMAC' : 'RSA'}`,
      ];
    case 'vault-hang':
      return [`vault-hang, ${action.on ? 'begins' : 'ends'}`];
    case 'vault-latency':
    case 'gateway-latency':
      return action.latency > 5 ? [`${action.do}, slow`] : [];
    case 'gateway-skew':
    case 'gateway-shut-out':
      return action.on ? [action.do] : [];
    case 'gateway-disable':
      return action.on ? [`gateway-disable, ${isPayment(action.operation) ? 'a payment' : 'a read'}`] : [];
    case 'request':
      return [`request, ${isPayment(action.operation) ? 'payment' : 'read'}`];
    case 'vault-delete':
    case 'vault-delete-all':
    case 'vault-undelete':
    case 'vault-forget':
    case 'vault-remember':
    case 'vault-deny':
    case 'vault-permit':
    case 'vault-rollback':
    case 'reload':
    case 'restart':
      break;
  }
  return [action.do];
}
