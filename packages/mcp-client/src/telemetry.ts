import { isRecord } from '@x/internal'
import type { TraceContext } from '@x/internal'
import { McpError } from '@modelcontextprotocol/sdk/types.js'
import type { Era } from '@x/mcp-transport'
import { McpClientError } from './errors.ts'
import type { OperationName } from './errors.ts'

/**
 * The part of `@opentelemetry/api` that the client uses. The module itself fits: `import * as openTelemetry
 * from '@opentelemetry/api'`. Declared here because the package is an optional peer.
 */
export interface OpenTelemetry {
  readonly trace: {
    getTracerProvider?(): OtelTracerProvider
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

type OtelAttributes = Readonly<Record<string, string | number | undefined>>

interface OtelContext {
  getValue(key: symbol): unknown
  setValue(key: symbol, value: unknown): OtelContext
  deleteValue(key: symbol): OtelContext
}

interface OtelSpanContext {
  readonly traceId: string
  readonly spanId: string
  readonly traceFlags: number
  readonly traceState?: { serialize(): string } | undefined
}

interface OtelSpan {
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

interface OtelTracerProvider {
  getTracer(name: string): OtelTracer
  /** That of the API itself: returns undefined until a provider is registered. */
  getDelegateTracer?(name: string): OtelTracer | undefined
}

interface OtelMeterProvider {
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

interface OtelCounter {
  add(value: number, attributes: OtelAttributes): void
}

interface OtelHistogram {
  record(value: number, attributes: OtelAttributes): void
}

/** Operation that a span describes: one request, or several that belong together. */
export interface ObservedOperation extends OperationName {
  /** Name of the requested prompt. */
  readonly prompt?: string | undefined
  /** URI of the requested resource. */
  readonly resource?: string | undefined
}

/** Server and session of an operation, as far as they are known. */
export interface EndpointInfo {
  readonly url: URL | undefined
  /** The server uses stdio. */
  readonly isChildProcess: boolean
  readonly protocolVersion: string | undefined
  /** Shortened. */
  readonly sessionId: string | undefined
}

/** Session that was opened, for telemetry. */
interface OpenedSession extends EndpointInfo {
  /** The session was stored, and needed no handshake. */
  readonly isResumed: boolean
  readonly era: Era | undefined
}

const SCOPE = 'mcp-client'
const CLIENT_KIND = 2
const ERROR_STATUS = 2
const INVALID_SPAN_ID = '0'.repeat(16)

/**
 * Reports the operations and handshakes of one session to OpenTelemetry, if it is available. Returns and throws
 * what the operation returns and throws.
 */
export class SessionObserver {
  readonly #getEndpoint: () => EndpointInfo
  readonly #given: OpenTelemetry | false | undefined
  /** Undefined until the first operation; null without OpenTelemetry. */
  #api: OpenTelemetry | null | undefined

  /** @param openTelemetry `undefined` stands for `@opentelemetry/api`, if it is installed; `false` for none */
  constructor(openTelemetry: OpenTelemetry | false | undefined, getEndpoint: () => EndpointInfo) {
    this.#given = openTelemetry
    this.#getEndpoint = getEndpoint
  }

  /** Returns the trace context of the active span. Needs no `this`. */
  readonly traceContext = (): TraceContext | undefined => {
    const api = this.#api ?? undefined
    return api === undefined ? undefined : getTraceContext(api)
  }

  /** Runs an operation in a span below the active span, and measures it. */
  operation<T>(operation: ObservedOperation, run: () => Promise<T>): Promise<T> {
    const api = this.#api
    if (api === null) return run()
    if (api === undefined) return this.#findApi().then(() => this.operation(operation, run))
    const provider = api.trace.getTracerProvider?.()
    const hasTracer =
      provider?.getDelegateTracer === undefined || provider.getDelegateTracer(SCOPE) !== undefined
    if (!hasTracer && !getInstruments(api).areActive) return run()
    const parent = api.context.active()
    const options = { kind: CLIENT_KIND, attributes: operationAttributes(operation) }
    const span = api.trace.getTracer(SCOPE).startSpan(getSpanName(operation), options, parent)
    const parentId = api.trace.getSpanContext(parent)?.spanId ?? INVALID_SPAN_ID
    // Without a tracer the span has no id of its own. With one, the server gets the id, also of an unsampled span.
    const isTraced = span.isRecording() || span.spanContext().spanId !== parentId
    if (!isTraced && !getInstruments(api).areActive) return run()
    return this.#measure(api, { operation, span }, () =>
      api.context.with(api.trace.setSpan(parent, span), run),
    )
  }

  async #measure<T>(
    api: OpenTelemetry,
    { operation, span }: { readonly operation: ObservedOperation; readonly span: OtelSpan },
    run: () => Promise<T>,
  ): Promise<T> {
    const startedAt = performance.now()
    const { duration, unknownOutcomes, areActive } = getInstruments(api)
    let failure: OtelAttributes | undefined
    try {
      const result = await run()
      failure = resultAttributes(result)
      if (failure !== undefined) span.setStatus({ code: ERROR_STATUS })
      return result
    } catch (error) {
      failure = errorAttributes(error)
      span.setStatus(toStatus(error))
      if (operation.tool !== undefined && McpClientError.is(error) && error.outcome === 'unknown') {
        unknownOutcomes.add(1, { ...metricAttributes(operation), ...failure })
      }
      throw error
    } finally {
      const endpoint = this.#getEndpoint()
      const server = serverAttributes(endpoint)
      endSpan(span, endpoint, { ...server, ...failure })
      if (areActive) {
        const seconds = (performance.now() - startedAt) / 1000
        duration.record(seconds, { ...metricAttributes(operation), ...server, ...failure })
      }
    }
  }

  /**
   * Opens a session as a part of an operation, and reports it afterwards: only then is it known whether there
   * was a handshake, and which one. `describe` is called for a session that was opened.
   *
   * @param isReplacement an earlier session was lost
   */
  async handshake<S>(
    isReplacement: boolean,
    run: () => Promise<S>,
    describe: (session: S) => OpenedSession,
  ): Promise<S> {
    const api = this.#api ?? undefined
    if (api === undefined) return run()
    const startTime = Date.now()
    const report = (method: string, endpoint: EndpointInfo, error?: unknown): void => {
      const attributes = { 'mcp.method.name': method, ...serverAttributes(endpoint) }
      const options = { kind: CLIENT_KIND, attributes, startTime }
      const span = api.trace.getTracer(SCOPE).startSpan(method, options, api.context.active())
      if (error !== undefined) span.setStatus(toStatus(error))
      const failure = error === undefined ? {} : errorAttributes(error)
      endSpan(span, endpoint, failure)
    }
    try {
      const session = await run()
      const { isResumed, era, ...endpoint } = describe(session)
      const { resumptions, reinitializations } = getInstruments(api)
      if (isReplacement) reinitializations.add(1, serverAttributes(endpoint))
      if (isResumed) resumptions.add(1, serverAttributes(endpoint))
      else report(era === 'modern' ? 'server/discover' : 'initialize', endpoint)
      return session
    } catch (error) {
      report('initialize', this.#getEndpoint(), error)
      throw error
    }
  }

  async #findApi(): Promise<void> {
    const api = this.#given ?? (await findOpenTelemetry())
    this.#api ??= api === undefined || api === false ? null : api
  }
}

let installed: Promise<OpenTelemetry | undefined> | undefined

/** Returns `@opentelemetry/api` if it is installed. Looks for it once per process. */
function findOpenTelemetry(): Promise<OpenTelemetry | undefined> {
  // The comment keeps bundlers from failing if the optional package is missing.
  return (installed ??= import(/* webpackIgnore: true */ '@opentelemetry/api').catch(
    () => undefined,
  ))
}

const DURATION_BUCKETS_S = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]

type Instruments = ReturnType<typeof createInstruments>

/** By provider, because a provider that is registered later replaces the one without effect. */
const knownInstruments = new WeakMap<OtelMeterProvider, Instruments>()

function getInstruments({ metrics }: OpenTelemetry): Instruments {
  const provider = metrics.getMeterProvider()
  const known = knownInstruments.get(provider)
  if (known !== undefined) return known
  const instruments = createInstruments(provider.getMeter(SCOPE))
  knownInstruments.set(provider, instruments)
  return instruments
}

// The semantic conventions for MCP define the first one.
function createInstruments(meter: OtelMeter) {
  const instruments = {
    duration: meter.createHistogram('mcp.client.operation.duration', {
      description: 'Duration of an operation with lookup, handshake and retries',
      unit: 's',
      advice: { explicitBucketBoundaries: DURATION_BUCKETS_S },
    }),
    reinitializations: meter.createCounter('mcp.client.session.reinitializations', {
      description: 'Sessions opened because the previous one was lost',
      unit: '{session}',
    }),
    resumptions: meter.createCounter('mcp.client.session.resumptions', {
      description: 'Stored sessions used without a handshake',
      unit: '{session}',
    }),
    unknownOutcomes: meter.createCounter('mcp.client.operation.unknown_outcomes', {
      description: 'Tool calls that may or may not have been executed',
      unit: '{call}',
    }),
  }
  // Without a provider, the API returns the same counter for all names.
  return { ...instruments, areActive: instruments.reinitializations !== instruments.resumptions }
}

const INVALID_ID = /^0+$/

/** Returns the active span as W3C Trace Context, for `_meta` (SEP-414). */
export function getTraceContext({ trace, context }: OpenTelemetry): TraceContext | undefined {
  const span = trace.getSpanContext(context.active())
  if (span === undefined || INVALID_ID.test(span.traceId) || INVALID_ID.test(span.spanId)) {
    return undefined
  }
  const flags = span.traceFlags.toString(16).padStart(2, '0')
  const tracestate = span.traceState?.serialize()
  return {
    traceparent: `00-${span.traceId}-${span.spanId}-${flags}`,
    ...(tracestate === undefined || tracestate === '' ? {} : { tracestate }),
  }
}

// Names and values of attributes follow the OpenTelemetry semantic conventions for MCP.

/** Method and target. A URI is only an attribute, because span names should have few values. */
function getSpanName({ method, tool, prompt }: ObservedOperation): string {
  const target = tool ?? prompt
  return target === undefined ? method : `${method} ${target}`
}

export function operationAttributes(operation: ObservedOperation): OtelAttributes {
  const { resource } = operation
  const attributes = metricAttributes(operation)
  if (resource === undefined) return attributes
  // Query, fragment and credentials may contain secrets.
  const uri = resource.replace(/[?#].*$/s, '').replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/]*@/i, '$1')
  return { ...attributes, 'mcp.resource.uri': uri }
}

/** Attributes with few values, for metrics. */
export function metricAttributes({ method, tool, prompt }: ObservedOperation): OtelAttributes {
  return {
    'mcp.method.name': method,
    ...(tool !== undefined && {
      'gen_ai.tool.name': tool,
      'gen_ai.operation.name': 'execute_tool',
    }),
    ...(prompt !== undefined && { 'gen_ai.prompt.name': prompt }),
  }
}

/** Attributes of the server. Without the session id, which has too many values for metrics. */
export function serverAttributes(endpoint: EndpointInfo): OtelAttributes {
  const { url, isChildProcess, protocolVersion } = endpoint
  return {
    ...(isChildProcess && { 'network.transport': 'pipe' }),
    ...(url !== undefined && {
      'network.transport': 'tcp',
      'network.protocol.name': 'http',
      'server.address': url.hostname,
      'server.port': Number(url.port) || (url.protocol === 'https:' ? 443 : 80),
    }),
    ...(protocolVersion !== undefined && { 'mcp.protocol.version': protocolVersion }),
  }
}

/** Attributes of an error: its code or name, never its message. */
export function errorAttributes(error: unknown): OtelAttributes {
  if (McpClientError.is(error)) return { 'error.type': error.code }
  if (error instanceof McpError) {
    const code = String(error.code)
    return { 'error.type': code, 'rpc.response.status_code': code }
  }
  return { 'error.type': error instanceof Error ? error.name : typeof error }
}

/** Attributes of a tool result with `isError`, or undefined for any other result. */
function resultAttributes(result: unknown): OtelAttributes | undefined {
  const isError = isRecord(result) && result['isError'] === true
  return isError ? { 'error.type': 'tool_error' } : undefined
}

/** Only messages of this package are reported: other messages may contain secrets. */
function toStatus(error: unknown): { code: number; message?: string } {
  return McpClientError.is(error)
    ? { code: ERROR_STATUS, message: error.message }
    : { code: ERROR_STATUS }
}

function endSpan(span: OtelSpan, { sessionId }: EndpointInfo, attributes: OtelAttributes): void {
  const session = sessionId === undefined ? {} : { 'mcp.session.id': sessionId }
  if (span.isRecording()) span.setAttributes({ ...attributes, ...session })
  span.end()
}
