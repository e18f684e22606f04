import { z } from 'zod';
import { httpUrl } from '../url.ts';
import { filePath, secret } from './values.ts';

/** A proxy that all connections to one server go through. The server's address must use https. */
export const egressProxy = z
  .strictObject({
    url: httpUrl
      .refine((value) => new URL(value).pathname === '/', 'must not have a path')
      .describe('URL of the proxy: http://host:port or https://host:port.'),
    caFile: filePath
      .optional()
      .describe('PEM file of the CA that signed the certificate of an https: proxy.'),
    username: z
      .string()
      .regex(/^[^\p{Cc}:]{1,255}$/u, 'must be 1 to 255 characters without ":" and control characters')
      .optional()
      .describe('User name for the proxy (Basic).'),
    password: secret.optional().describe('The password, as ${NAME} from an environment variable.'),
    passwordFile: filePath
      .optional()
      .describe('File that holds the password; a replaced one is used for new connections after a second.'),
  })
  .refine(
    ({ username, password, passwordFile }) =>
      username === undefined
        ? password === undefined && passwordFile === undefined
        : (password === undefined) !== (passwordFile === undefined),
    'requires username with exactly one of password and passwordFile, or none of them',
  )
  .refine(({ url, caFile }) => caFile === undefined || isHttps(url), {
    path: ['caFile'],
    message: 'requires an https: URL of the proxy',
  })
  .optional()
  .describe(
    'HTTP proxy through which all connections to this server are tunneled (CONNECT). Variables such as HTTPS_PROXY are not read.',
  );

export const tunnelRequiresHttps = 'must use https, because connections go through an egressProxy';

/** Whether a server may be reached this way: through a tunnel, only TLS hides the requests from the proxy. */
export function isFitForTunnel(address: string, proxy: unknown): boolean {
  return proxy === undefined || !URL.canParse(address) || isHttps(address);
}

function isHttps(url: string): boolean {
  return new URL(url).protocol === 'https:';
}
