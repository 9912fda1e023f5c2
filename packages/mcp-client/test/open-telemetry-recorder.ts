import { context, metrics, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { MeterProvider, MetricReader } from '@opentelemetry/sdk-metrics'
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import type { ReadableSpan, Sampler } from '@opentelemetry/sdk-trace'

class OnDemandReader extends MetricReader {
  protected override async onForceFlush(): Promise<void> {}
  protected override async onShutdown(): Promise<void> {}
}

interface Measured {
  /** Sum of a counter, number of values of a histogram. */
  readonly value: number
  readonly attributes: Readonly<Record<string, unknown>>
}

export interface OpenTelemetryRecorder extends AsyncDisposable {
  /** Ended spans, in this order. */
  spans(): readonly ReadableSpan[]
  measured(metric: string): Promise<readonly Measured[]>
}

/** Registers the OpenTelemetry SDK for this process, and keeps spans and metrics in memory. */
export function recordOpenTelemetry(
  options: { readonly sampler?: Sampler } = {},
): OpenTelemetryRecorder {
  const exporter = new InMemorySpanExporter()
  const spanProcessors = [new SimpleSpanProcessor({ exporter })]
  const reader = new OnDemandReader()
  const tracers = new TracerProvider({ spanProcessors, ...options })
  const meters = new MeterProvider({ readers: [reader] })
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  trace.setGlobalTracerProvider(tracers)
  metrics.setGlobalMeterProvider(meters)
  return {
    spans: () => exporter.getFinishedSpans(),
    async measured(metric) {
      const { resourceMetrics } = await reader.collect()
      return resourceMetrics.scopeMetrics
        .flatMap((scope) => scope.metrics)
        .filter(({ descriptor }) => descriptor.name === metric)
        .flatMap(({ dataPoints }): Measured[] =>
          dataPoints.map(({ value, attributes }) => ({
            value: typeof value === 'number' ? value : value.count,
            attributes,
          })),
        )
    },
    async [Symbol.asyncDispose]() {
      for (const api of [context, trace, metrics]) api.disable()
      await tracers.shutdown()
      await meters.shutdown()
    },
  }
}
