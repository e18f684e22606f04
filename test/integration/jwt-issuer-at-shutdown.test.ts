import { expect, it } from '@jest/globals';
import { harness } from '../support/harness.ts';
import { jwtConfig } from '../support/jwt.ts';
import { startOidcServer } from '../support/oidc-server.ts';
import { until } from '../support/until.ts';

const starts = harness();

it('an issuer that does not respond delays neither the start nor the exit of the process', async () => {
  const issuer = starts.closing(await startOidcServer());
  issuer.respond = () => {};
  const countersign = await starts.process({ config: jwtConfig(issuer) });
  await until(() => issuer.requests.length > 0);
  const began = performance.now();
  expect(await countersign.stop()).toBe(0);
  // A request to the issuer has five seconds.
  expect(performance.now() - began).toBeLessThan(4000);
});
