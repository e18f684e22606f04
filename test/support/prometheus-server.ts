import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { z } from 'zod';
import { freePort } from './faulty-gateway.ts';
import { Folder } from './folder.ts';
import { until } from './until.ts';

const vector = z.object({
  resultType: z.literal('vector'),
  result: z.array(
    z.object({ metric: z.record(z.string(), z.string()), value: z.tuple([z.number(), z.string()]) }),
  ),
});
export type Sample = z.output<typeof vector>['result'][number];

export interface PrometheusServer {
  /** An instant query. */
  query(expr: string): Promise<Sample[]>;
  /** `data` in the response of an API path. */
  api(path: string): Promise<unknown>;
  close(): Promise<void>;
}

/** An entry of `static_configs`. */
interface StaticTargets {
  readonly targets: readonly string[];
  readonly labels?: Readonly<Record<string, string>>;
}

/** An entry of `scrape_configs`. */
export interface ScrapeConfig {
  readonly job_name: string;
  readonly static_configs: readonly StaticTargets[];
  readonly scheme?: 'https';
  readonly tls_config?: { readonly ca_file: string };
}

/** A scrape of admin ports with TLS as job `countersign`. @param caFile of their certificate */
export function secureScrape(adminUrls: readonly string[], caFile: string): ScrapeConfig {
  return {
    job_name: 'countersign',
    scheme: 'https',
    tls_config: { ca_file: caFile },
    static_configs: [{ targets: adminUrls.map((url) => new URL(url).host) }],
  };
}

/** A real Prometheus on a free loopback port, with a scrape interval of one second. */
export async function startPrometheus(
  scrapes: readonly ScrapeConfig[],
  ruleFiles: readonly string[],
): Promise<PrometheusServer> {
  const folder = new Folder();
  const config = {
    global: { scrape_interval: '1s', evaluation_interval: '1s' },
    rule_files: ruleFiles,
    scrape_configs: scrapes,
  };
  const address = `127.0.0.1:${await freePort()}`;
  const server = spawn(
    'prometheus',
    [
      // JSON is YAML.
      `--config.file=${folder.file('prometheus.yml', JSON.stringify(config))}`,
      `--storage.tsdb.path=${folder.at('data')}`,
      `--web.listen-address=${address}`,
      '--enable-feature=exemplar-storage',
      '--log.level=error',
    ],
    { stdio: ['ignore', 'ignore', 'inherit'] },
  );
  const ended = once(server, 'exit');
  const api = async (path: string): Promise<unknown> => {
    const response = await fetch(`http://${address}/api/v1/${path}`);
    const responseBody = z.object({ status: z.string(), error: z.string().optional(), data: z.unknown() });
    const { status, error, data } = responseBody.parse(await response.json());
    if (status !== 'success') throw new Error(`${path}: ${error}`);
    return data;
  };
  const isReady = async (): Promise<boolean> => (await fetch(`http://${address}/-/ready`)).ok;
  await until(() => isReady().catch(() => false), 'Prometheus is ready', 15).catch((error: unknown) => {
    server.kill();
    throw error;
  });
  return {
    api,
    query: async (expr) => vector.parse(await api(`query?query=${encodeURIComponent(expr)}`)).result,
    close: async () => {
      server.kill();
      await ended;
      folder.remove();
    },
  };
}
