import { orderIdNames } from '../identifiers.ts';
import type { Destination } from './router.ts';

type Pair = readonly [name: string, value: string];

/** The parameter with the signature of SHA1-control (docs/gateway-interface.md section 5.5). */
export const controlName = 'control';

/** What a control is made of. */
export interface ControlSubject {
  readonly destination: Pick<Destination, 'operation' | 'values'>;
  readonly login: string;
  readonly form: readonly Pair[];
}

/** What is signed with the control key: the {@link controlParts} without anything between them. */
export function controlText(subject: ControlSubject): string {
  return controlParts(subject)
    .map(([, value]) => value)
    .join('');
}

/** What `control` of the operation names, each with its value. */
export function controlParts({ destination: { operation, values }, login, form }: ControlSubject): Pair[] {
  const valueOf = (name: string): string => {
    if (name === 'login') return login;
    const placeholder = placeholderIn(name);
    if (placeholder !== undefined) return values[placeholder] ?? '';
    const value = parameterOf(form, name);
    const currency = operation.parameters[name]?.minorUnitsOf;
    if (value === undefined || currency === undefined) return value ?? '';
    return minorUnits(value, parameterOf(form, currency)) ?? value;
  };
  return (operation.control ?? []).map((name) => [name, valueOf(name)]);
}

/** The form of a SHA1-control operation as it is sent, but for the control itself: with the login, where that is covered. */
export function formWithLogin({ destination, login, form }: ControlSubject): readonly Pair[] {
  const { control = [] } = destination.operation;
  const isMissing = control.includes('login') && parameterOf(form, 'login') === undefined;
  return isMissing ? [['login', login], ...form] : form;
}

/** @param name an entry of `control`, such as `{endpoint}` */
function placeholderIn(name: string): 'login' | 'endpoint' | 'endpointGroup' | undefined {
  return (['login', 'endpoint', 'endpointGroup'] as const).find((one) => name === `{${one}}`);
}

/** The value of a parameter; of the order ID in either spelling. */
export function parameterOf(form: readonly Pair[], name: string): string | undefined {
  const spellings = orderIdNames.includes(name) ? orderIdNames : [name];
  return form.find(([one]) => spellings.includes(one))?.[1];
}

/** Currencies of ISO 4217 whose minor unit is not a hundredth: its number of decimals. */
const decimals: ReadonlyMap<string, number> = new Map(
  Object.entries({
    0: 'BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF',
    3: 'BHD IQD JOD KWD LYD OMR TND',
    4: 'CLF UYW',
  }).flatMap(([count, codes]) => codes.split(' ').map((code) => [code, Number(count)] as const)),
);

/**
 * An amount in the minor units of its currency: 10.42 EUR is 1042, 10 JPY is 10.
 *
 * @returns `undefined` for what is no amount, no code of a currency, or has more decimals than it
 */
export function minorUnits(amount: string, currency = ''): string | undefined {
  const [, units, fraction = ''] = /^(\d+)(?:\.(\d+))?$/.exec(amount) ?? [];
  const count = decimals.get(currency) ?? 2;
  if (units === undefined || !/^[A-Z]{3}$/.test(currency) || /[1-9]/.test(fraction.slice(count)))
    return undefined;
  return `${units}${fraction.slice(0, count).padEnd(count, '0')}`.replace(/^0+(?=\d)/, '');
}
