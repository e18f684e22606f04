import type { TlsOptions } from 'node:tls';
import { afterEach, beforeAll, beforeEach } from '@jest/globals';
import type { ListenOptions } from '../../src/simulator/listen.ts';
import { type FaultyGateway, type Script, startFaultyGateway } from './faulty-gateway.ts';
import { Folder } from './folder.ts';
import {
  type CountersignProcess,
  type ProcessOptions,
  type ServeProcess,
  type SpawnOptions,
  spawnServe,
  startProcess,
} from './process.ts';
import { type RecordingGateway, startRecordingGateway } from './recording-gateway.ts';
import { type ProxyOptions, startProxy, type TestProxy } from './service.ts';
import type { TestSimulator } from './simulator.ts';

/** A Countersign in front of a gateway that records requests. */
export interface Edge extends TestProxy {
  readonly gateway: RecordingGateway;
}

/** A Countersign in front of a gateway that the test scripts on raw TCP. */
export interface Pair {
  readonly gateway: FaultyGateway;
  readonly proxy: TestProxy;
}

/** Starts the parts of a test, and stops all of them after it. */
export interface Harness {
  /** In this process. */
  readonly proxy: (options?: ProxyOptions) => Promise<TestProxy>;
  /** In a separate process, which listens. */
  readonly process: (options?: ProcessOptions) => Promise<CountersignProcess>;
  /** A separate process that may fail to start. */
  readonly spawn: (options: SpawnOptions) => ServeProcess;
  readonly edge: (options?: ProxyOptions) => Promise<Edge>;
  /** One for all tests of this block, whose gateway is reset before each of them. */
  readonly sharedEdge: (options?: ProxyOptions) => () => Edge;
  readonly pair: (scripts: readonly Script[], options?: ProxyOptions) => Promise<Pair>;
  readonly gateway: (scripts: readonly Script[], tls?: TlsOptions, onPort?: number) => Promise<FaultyGateway>;
  readonly recordingGateway: () => Promise<RecordingGateway>;
  readonly simulator: (options?: Partial<ListenOptions>) => Promise<TestSimulator>;
  readonly folder: () => Folder;
  /** Closes this too. */
  readonly closing: <T extends { close(): unknown }>(part: T) => T;
  /** Calls this too, before the others. */
  readonly atEnd: (end: () => unknown) => void;
}

/** @param after when all that was started is ended: after each test, or after all with `afterAll` */
export function harness(after: (end: () => Promise<void>) => void = afterEach): Harness {
  const ends: (() => unknown)[] = [];
  after(async () => {
    await Promise.all(ends.splice(0).map((end) => end()));
  });
  const atEnd = (end: () => unknown): void => void ends.unshift(end);
  const closing = <T extends { close(): unknown }>(part: T): T => {
    atEnd(() => part.close());
    return part;
  };
  const proxy = async (options?: ProxyOptions): Promise<TestProxy> => {
    const started = await startProxy(options);
    atEnd(started.stop);
    return started;
  };
  const gateway: Harness['gateway'] = async (...options) => closing(await startFaultyGateway(...options));
  const recordingGateway = async () => closing(await startRecordingGateway());
  const edge: Harness['edge'] = async (options) => {
    const recording = await recordingGateway();
    return { ...(await proxy({ gateway: recording.url, ...options })), gateway: recording };
  };
  return {
    proxy,
    process: async (options) => closing(await startProcess(options)),
    spawn: (options) => closing(spawnServe(options)),
    edge,
    sharedEdge(options) {
      let shared: Edge;
      beforeAll(async () => {
        shared = await edge(options);
      });
      beforeEach(() => shared.gateway.reset());
      return () => shared;
    },
    async pair(scripts, options) {
      const faulty = await gateway(scripts);
      return { gateway: faulty, proxy: await proxy({ gateway: faulty.url, ...options }) };
    },
    gateway,
    recordingGateway,
    async simulator(options) {
      // Loaded by those who need it: it reads the published operations, which takes longer than starting a proxy.
      const { startSimulator } = await import('./simulator.ts');
      return closing(await startSimulator(options));
    },
    folder() {
      const folder = new Folder();
      atEnd(() => folder.remove());
      return folder;
    },
    closing,
    atEnd,
  };
}
