import type { Harness } from './harness.ts';
import { type ReceivedSpan, spansIn } from './otlp.ts';
import type { RecordingGateway } from './recording-gateway.ts';
import type { TestProxy } from './service.ts';

/** An OTLP receiver that accepts everything. */
export async function startReceiver(starts: Harness): Promise<RecordingGateway> {
  const receiver = await starts.recordingGateway();
  receiver.respond = (response) => response.end();
  return receiver;
}

/** `tracing` with which every trace is recorded. */
export const tracingTo = ({ url }: Pick<RecordingGateway, 'url'>) => ({ otlp: url, sampleRatio: 1 });

/** All spans of a proxy, which is stopped for that. */
export async function spansOf(
  { stop }: Pick<TestProxy, 'stop'>,
  receiver: RecordingGateway,
): Promise<readonly ReceivedSpan[]> {
  await stop();
  return receiver.requests.flatMap(spansIn);
}

/** The one span with this name. */
export function spanNamed(spans: readonly ReceivedSpan[], name: string): ReceivedSpan {
  const [span, ...others] = spans.filter((one) => one.name === name);
  if (span === undefined || others.length > 0)
    throw new Error(`not one span ${name} among ${spans.map((one) => one.name).join()}`);
  return span;
}
