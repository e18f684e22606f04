// Everything that needs OpenTelemetry's SDK, in one piece to load when it is needed.
export { createDestination } from './destination.ts';
export { createRequestTracer } from './request-tracer.ts';
export { SpanQueue } from './span-queue.ts';
