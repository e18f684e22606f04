import { fromEnvironment } from '../config/read.ts';

/** Settings of the process under which no secret should be touched: what is wrong and what to do. */
export function unsafeSettings(lookUp: (name: string) => string | undefined = fromEnvironment): string[] {
  const settings: [isUnsafe: boolean, problem: string][] = [
    [
      lookUp('NODE_TLS_REJECT_UNAUTHORIZED') === '0',
      'NODE_TLS_REJECT_UNAUTHORIZED=0 switches the verification of certificates off. Unset it; trust a CA with caFile.',
    ],
    [
      (lookUp('NODE_DEBUG') ?? '') !== '',
      'NODE_DEBUG makes Node print the headers of requests, Vault tokens and signatures among them. Unset it.',
    ],
  ];
  return settings.filter(([isUnsafe]) => isUnsafe).map(([, problem]) => problem);
}
