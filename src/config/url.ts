import { isIPv4 } from 'node:net';
import { z } from 'zod';

/**
 * An absolute `http:` or `https:` URL and nothing that could lead a request elsewhere: no credentials, no
 * query, no fragment, no host with a trailing dot (another name for the same host, past every comparison).
 * No message repeats the value, which may hold a password.
 */
export const webAddress = z.string().superRefine((value, context) => {
  for (const [wrong, message] of faults) if (wrong(value)) return context.addIssue(message);
});

const faults: readonly (readonly [wrong: (value: string) => boolean, message: string])[] = [
  [
    (value) => !/^https?:\/\/[^\s\\]+$/i.test(value) || !URL.canParse(value),
    'must be an absolute URL such as https://gateway.example',
  ],
  [(value) => value.includes('@'), 'must not hold credentials or "@": remove them'],
  [(value) => value.includes('?'), 'must not have a query: remove everything from "?" on'],
  [(value) => value.includes('#'), 'must not have a fragment: remove everything from "#" on'],
  [(value) => new URL(value).hostname.endsWith('.'), 'must not have a dot at the end of the host: remove it'],
  [
    (value) => new URL(value).pathname !== (/^https?:\/\/[^/]*(\/.*)$/i.exec(value)?.[1] ?? '/'),
    'must have a plain path: no "..", and nothing that would have to be encoded',
  ],
];

/** Whether requests to this address could be read on the way. */
export function isPlaintextRemote(address: string): boolean {
  if (!URL.canParse(address)) return false;
  const { protocol, hostname } = new URL(address);
  return protocol === 'http:' && !isLoopback(hostname.replace(/^\[|\]$/g, ''));
}

/** 127.0.0.0/8 (RFC 1122 section 3.2.1.3), ::1 (RFC 4291 section 2.5.3) and localhost (RFC 6761). */
export function isLoopback(host: string): boolean {
  return (isIPv4(host) && host.startsWith('127.')) || host === '::1' || host.toLowerCase() === 'localhost';
}

/** Two {@link webAddress}es with the same result lead to the same place. */
export function canonicalUrl(address: string): string {
  const { origin, pathname } = new URL(address);
  return origin + pathname.replace(/\/+$/, '');
}
