/**
 * The part of `@opentelemetry/api` that is used. The package itself fits: `import * as openTelemetry from
 * '@opentelemetry/api'`. Written out here, so that nobody needs it to compile.
 */
export interface OpenTelemetry {
  readonly trace: {
    getTracer(name: string, version?: string): OtelTracer
    setSpan(context: OtelContext, span: OtelSpan): OtelContext
    getSpanContext(context: OtelContext): OtelSpanContext | undefined
  }
  readonly context: {
    active(): OtelContext
    with<T>(context: OtelContext, fn: () => T): T
  }
  readonly metrics: {
    getMeterProvider(): OtelMeterProvider
  }
}

export type OtelAttributes = Readonly<Record<string, string | number | undefined>>

interface OtelContext {
  getValue(key: symbol): unknown
  setValue(key: symbol, value: unknown): OtelContext
  deleteValue(key: symbol): OtelContext
}

export interface OtelSpanContext {
  readonly traceId: string
  readonly spanId: string
  readonly traceFlags: number
  readonly traceState?: { serialize(): string } | undefined
}

export interface OtelSpan {
  isRecording(): boolean
  spanContext(): OtelSpanContext
  setAttributes(attributes: OtelAttributes): unknown
  setStatus(status: { code: number; message?: string }): unknown
  end(): void
}

interface OtelTracer {
  startSpan(
    name: string,
    options: { kind: number; attributes: OtelAttributes; startTime?: number },
    context: OtelContext,
  ): OtelSpan
}

export interface OtelMeterProvider {
  getMeter(name: string, version?: string): OtelMeter
}

interface OtelMeter {
  createCounter(name: string, options: { description: string; unit: string }): OtelCounter
  createHistogram(
    name: string,
    options: {
      description: string
      unit: string
      advice: { explicitBucketBoundaries: number[] }
    },
  ): OtelHistogram
}

export interface OtelCounter {
  add(value: number, attributes: OtelAttributes): void
}

export interface OtelHistogram {
  record(value: number, attributes: OtelAttributes): void
}

let installed: Promise<OpenTelemetry | undefined> | undefined

/** `@opentelemetry/api`, if it is installed: looked for once per process, at the first operation. */
export function installedOpenTelemetry(): Promise<OpenTelemetry | undefined> {
  return (installed ??= importOpenTelemetry())
}

async function importOpenTelemetry(): Promise<OpenTelemetry | undefined> {
  try {
    // Bundlers that would fail where it is missing leave it to the runtime.
    return await import(/* webpackIgnore: true */ '@opentelemetry/api')
  } catch {
    return undefined // an optional peer
  }
}
