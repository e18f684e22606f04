import type { Operation } from '../gateway/operations.ts';
import { orderIdNames } from '../identifiers.ts';
import type { Pair } from './form.ts';
import type { VerificationTrace } from './journal.ts';
import { VerificationError } from './rejections.ts';
import { controlOf, keyNames } from './signature.ts';
import type { SimulatorState } from './state.ts';

/** The variable segments of the path, decoded. */
type PathValues = Readonly<Record<string, string>>;

/**
 * Verifies a request that is signed by a control (docs/gateway-interface.md section 5.5). Shares no step with the proxy's
 * signer. A control that does not cover the login belongs to the first login with a key that made it.
 *
 * @throws VerificationError of the first failed check
 */
export function verifyControl(
  path: PathValues,
  operation: Operation,
  { keys }: SimulatorState,
  trace: VerificationTrace,
  parameters: readonly Pair[],
) {
  const form = parameters.filter(([name]) => name !== 'control');
  trace.form = form;
  trace.begin('login');
  const claimed = valuesOf(form, 'login');
  const logins = [...keys].filter(([login]) => claimed.every((one) => one === login));
  trace.login = claimed[0];
  const [first] = logins;
  if (first === undefined) throw new VerificationError('login-unknown');
  trace.begin('control-text');
  const text = controlTextOf(operation, path, form);
  trace.note({ controlText: text });
  trace.begin('signature');
  const [control, ...others] = valuesOf(parameters, 'control');
  if (control === undefined || others.length > 0) throw new VerificationError('control-missing');
  trace.note({ triedKeys: keyNames('SHA1-control', first[1]) });
  for (const [login, accepted] of logins) {
    const made = accepted.controlKeys.findIndex((key) => controlOf(text, key) === control);
    const key = keyNames('SHA1-control', accepted)[made];
    if (key === undefined) continue;
    trace.note({ key, triedKeys: undefined });
    trace.login = login;
    return { login, form };
  }
  throw new VerificationError('signature-wrong');
}

function valuesOf(form: readonly Pair[], name: string): string[] {
  const names = orderIdNames.includes(name) ? orderIdNames : [name];
  return form.filter(([found]) => names.includes(found)).map(([, value]) => value);
}

/** What is not sent is not concatenated. */
function controlTextOf(
  { control = [], parameters }: Operation,
  path: PathValues,
  form: readonly Pair[],
): string {
  const texts = control.map((name) => {
    const [, segment] = /^\{(\w+)\}$/.exec(name) ?? [];
    if (segment !== undefined) return path[segment] ?? '';
    const [value = ''] = valuesOf(form, name);
    const currency = parameters[name]?.minorUnitsOf;
    return currency === undefined ? value : inMinorUnits(value, valuesOf(form, currency)[0]);
  });
  return texts.join('');
}

/** 0.94 is 94, of a currency with two decimals. */
function inMinorUnits(amount: string, currency: string | undefined): string {
  const [units = '', fraction = ''] = amount.split('.');
  const digits = `${units}${fraction.padEnd(decimalsOf(currency), '0')}`;
  return /^\d+$/.test(digits) && units !== '' ? String(BigInt(digits)) : amount;
}

/** ISO 4217. Written down once more: a simulator that shared it with the signer would share its mistakes. */
export function decimalsOf(currency = ''): number {
  if (/^(?:BIF|CLP|DJF|GNF|ISK|JPY|KMF|KRW|PYG|RWF|UGX|UYI|VND|VUV|XAF|XOF|XPF)$/.test(currency)) return 0;
  if (/^(?:BHD|IQD|JOD|KWD|LYD|OMR|TND)$/.test(currency)) return 3;
  return currency === 'CLF' || currency === 'UYW' ? 4 : 2;
}
