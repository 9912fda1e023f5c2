import { McpClientError } from '../mcp-client-error.ts'
import { instrumentsOf, SCOPE } from './instruments.ts'
import type { OpenTelemetry, OtelAttributes, OtelSpan, OtelSpanContext } from './open-telemetry.ts'
import {
  errorAttributes,
  metricAttributes,
  operationAttributes,
  resultAttributes,
  serverAttributes,
  spanNameOf,
} from './span-attributes.ts'
import type { ObservedOperation, Whereabouts } from './span-attributes.ts'

const CLIENT_KIND = 2
const ERROR_STATUS = 2
const NO_SPAN_ID = '0'.repeat(16)

export interface OperationTrace {
  readonly operation: ObservedOperation
  /** Asked at the end. */
  readonly where: () => Whereabouts
}

/**
 * Runs an operation in a span of its own, below whatever span the caller is in, and measures it. Where
 * nobody records spans or measures, that costs next to nothing.
 */
export function traced<T>(
  api: OpenTelemetry,
  observed: OperationTrace,
  run: () => Promise<T>,
): Promise<T> {
  const { operation } = observed
  const parent = api.context.active()
  const options = { kind: CLIENT_KIND, attributes: operationAttributes(operation) }
  const span = api.trace.getTracer(SCOPE).startSpan(spanNameOf(operation), options, parent)
  const parentSpan = api.trace.getSpanContext(parent)
  const isHeard = span.isRecording() || instrumentsOf(api).areHeard
  if (!isHeard && isNone(span, parentSpan)) return run()
  const context = api.trace.setSpan(parent, span)
  return told(api, { ...observed, span }, () => api.context.with(context, run))
}

/** One that is not sampled has an id all the same, which the server must get; one of no tracer has none. */
function isNone(span: OtelSpan, parent: OtelSpanContext | undefined): boolean {
  const { spanId } = span.spanContext()
  return spanId === (parent?.spanId ?? NO_SPAN_ID)
}

async function told<T>(
  api: OpenTelemetry,
  { operation, where, span }: OperationTrace & { readonly span: OtelSpan },
  run: () => Promise<T>,
): Promise<T> {
  const startedAt = performance.now()
  let failure: OtelAttributes | undefined
  try {
    const result = await run()
    failure = resultAttributes(result)
    if (failure !== undefined) span.setStatus({ code: ERROR_STATUS })
    return result
  } catch (error) {
    failure = errorAttributes(error)
    span.setStatus(statusOf(error))
    if (operation.tool !== undefined && McpClientError.is(error) && error.outcome === 'unknown') {
      instrumentsOf(api).unknownOutcomes.add(1, { ...metricAttributes(operation), ...failure })
    }
    throw error
  } finally {
    const reached = where()
    const server = serverAttributes(reached)
    end(span, { ...server, ...sessionAttributes(reached), ...failure })
    const { areHeard, duration } = instrumentsOf(api)
    if (areHeard) {
      const seconds = (performance.now() - startedAt) / 1000
      duration.record(seconds, { ...metricAttributes(operation), ...server, ...failure })
    }
  }
}

export interface HandshakeTrace {
  /** Milliseconds since 1970. */
  readonly startedAt: number
  readonly method: string
  readonly where: Whereabouts
  readonly error?: unknown
}

/** A handshake, told when it is over: before, nobody knows whether there is one, and which. */
export function traceHandshake(api: OpenTelemetry, handshake: HandshakeTrace): void {
  const { startedAt: startTime, method, where, error } = handshake
  const attributes = { 'mcp.method.name': method, ...serverAttributes(where) }
  const options = { kind: CLIENT_KIND, attributes, startTime }
  const span = api.trace.getTracer(SCOPE).startSpan(method, options, api.context.active())
  if (error !== undefined) span.setStatus(statusOf(error))
  end(span, {
    ...sessionAttributes(where),
    ...(error === undefined ? {} : errorAttributes(error)),
  })
}

/** Our own messages hold no secrets; what a server or a caller says is not passed on. */
function statusOf(error: unknown): { code: number; message?: string } {
  return McpClientError.is(error)
    ? { code: ERROR_STATUS, message: error.message }
    : { code: ERROR_STATUS }
}

function sessionAttributes({ sessionId }: Whereabouts): OtelAttributes {
  return sessionId === undefined ? {} : { 'mcp.session.id': sessionId }
}

function end(span: OtelSpan, attributes: OtelAttributes): void {
  if (span.isRecording()) span.setAttributes(attributes)
  span.end()
}
