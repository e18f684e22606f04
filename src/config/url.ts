import { isIPv4 } from 'node:net';
import { z } from 'zod';

/**
 * An absolute `http:` or `https:` URL without anything that could redirect a request: no credentials, no query, no
 * fragment, no host with a trailing dot (which names the same host, but defeats comparisons). No message repeats the
 * value, which may contain a password.
 */
export const httpUrl = httpUrlSuchAs('https://gateway.example');

/** @param example of the server that the URL is of */
export function httpUrlSuchAs(example: string) {
  return z.string().superRefine((value, context) => {
    if (!isAbsolute(value)) return context.addIssue(`must be an absolute URL such as ${example}`);
    for (const [isInvalid, message] of checks) if (isInvalid(value)) return context.addIssue(message);
  });
}

function isAbsolute(value: string): boolean {
  return /^https?:\/\/[^\s\\]+$/i.test(value) && URL.canParse(value);
}

const checks: readonly (readonly [isInvalid: (value: string) => boolean, message: string])[] = [
  [(value) => value.includes('@'), 'must not contain credentials or "@": remove them'],
  [(value) => value.includes('?'), 'must not contain a query: remove everything from "?" on'],
  [(value) => value.includes('#'), 'must not contain a fragment: remove everything from "#" on'],
  [(value) => new URL(value).hostname.endsWith('.'), 'must not have a trailing dot in the host: remove it'],
  [
    (value) => new URL(value).pathname !== (/^https?:\/\/[^/]*(\/.*)$/i.exec(value)?.[1] ?? '/'),
    'must have a plain path without ".." and without characters that need encoding',
  ],
];

/** Whether requests to this {@link httpUrl} leave the machine without TLS. */
export function isPlaintextRemote(url: string): boolean {
  const parsed = new URL(url);
  return parsed.protocol === 'http:' && !isLoopback(hostOf(parsed));
}

/** An IPv6 address without its brackets, as a socket needs it. */
export function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[|\]$/g, '');
}

/** 127.0.0.0/8 (RFC 1122 section 3.2.1.3), ::1 (RFC 4291 section 2.5.3) and localhost (RFC 6761). */
export function isLoopback(host: string): boolean {
  return (isIPv4(host) && host.startsWith('127.')) || host === '::1' || host.toLowerCase() === 'localhost';
}

/** A connection to the unspecified address reaches this host, too. Other addresses of 127.0.0.0/8 may be other servers. */
const thisHost = ['localhost', '127.0.0.1', '[::1]', '0.0.0.0', '[::]'];

/** Two {@link httpUrl}s with the same result lead to the same place. */
export function canonicalUrl(url: string): string {
  const { protocol, hostname, port, pathname } = new URL(url);
  const host = thisHost.includes(hostname) ? 'localhost' : hostname;
  return `${protocol}//${host}:${port}${pathname.replace(/\/+$/, '')}`;
}
