import { McpClientError } from '../mcp-client-error.ts'
import { instrumentsOf, SCOPE } from './instruments.ts'
import type { OpenTelemetry, OtelAttributes, OtelSpan } from './open-telemetry.ts'
import {
  errorAttributes,
  methodOf,
  operationAttributes,
  resultAttributes,
  serverAttributes,
} from './span-attributes.ts'
import type { ObservedOperation, Whereabouts } from './span-attributes.ts'

const CLIENT_KIND = 2
const ERROR_STATUS = 2

/** Runs an operation in a span of its own, below whatever span the caller is in, and measures it. */
export async function traced<T>(
  api: OpenTelemetry,
  { operation, where }: { operation: ObservedOperation; where: () => Whereabouts },
  run: () => Promise<T>,
): Promise<T> {
  const { trace, context } = api
  const attributes = operationAttributes(operation)
  const name = [methodOf(operation), operation.tool].filter((part) => part !== undefined).join(' ')
  const parent = context.active()
  const span = trace.getTracer(SCOPE).startSpan(name, { kind: CLIENT_KIND, attributes }, parent)
  const startedAt = performance.now()
  let failure: OtelAttributes | undefined
  try {
    const result = await context.with(trace.setSpan(parent, span), run)
    failure = resultAttributes(result)
    if (failure !== undefined) span.setStatus({ code: ERROR_STATUS })
    return result
  } catch (error) {
    failure = errorAttributes(error)
    span.setStatus(statusOf(error))
    if (operation.tool !== undefined && McpClientError.is(error) && error.outcome === 'unknown') {
      instrumentsOf(api).unknownOutcomes.add(1, { ...attributes, ...failure })
    }
    throw error
  } finally {
    const reached = where()
    const server = serverAttributes(reached)
    end(span, { ...server, ...sessionAttributes(reached), ...failure })
    const seconds = (performance.now() - startedAt) / 1000
    instrumentsOf(api).duration.record(seconds, { ...attributes, ...server, ...failure })
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
  span.setAttributes(attributes)
  span.end()
}
