import type { TraceContext } from '@x/mcp-transport'
import { instrumentsOf } from './instruments.ts'
import { installedOpenTelemetry } from './open-telemetry.ts'
import type { OpenTelemetry } from './open-telemetry.ts'
import { traced, traceHandshake } from './operation-trace.ts'
import { serverAttributes } from './span-attributes.ts'
import type { ObservedOperation, Whereabouts } from './span-attributes.ts'
import { activeTraceContext } from './trace-context.ts'

/** What is observed of a session that was opened. */
interface OpenedSession extends Whereabouts {
  /** Went on from a stored record, without a handshake. */
  readonly isResumed: boolean
  readonly era?: 'legacy' | 'modern' | undefined
}

export interface SessionObserverOptions {
  /** @default `@opentelemetry/api`, if it is installed; `false` for none */
  readonly openTelemetry?: OpenTelemetry | false | undefined
  /** Where the session is now. */
  readonly where: () => Whereabouts
}

/**
 * Watches what is done with one session, for OpenTelemetry where it is there. Changes nothing: what it
 * watches returns and throws as it would without.
 */
export class SessionObserver {
  readonly #where: () => Whereabouts
  readonly #given: OpenTelemetry | false | undefined
  /** Undefined until it is known whether there is one. */
  #api: OpenTelemetry | null | undefined

  constructor({ openTelemetry, where }: SessionObserverOptions) {
    this.#given = openTelemetry
    this.#where = where
  }

  /** Of the span that is active where this is called. */
  traceContext(): TraceContext | undefined {
    const api = this.#api ?? undefined
    return api === undefined ? undefined : activeTraceContext(api)
  }

  operation<T>(operation: ObservedOperation, run: () => Promise<T>): Promise<T> {
    const api = this.#api
    if (api === null) return run()
    if (api === undefined) return this.#find().then(() => this.operation(operation, run))
    return traced(api, { operation, where: this.#where }, run)
  }

  /** Opens a session, as a part of an operation. `seen` says what has become of it. */
  async handshake<S>(
    { isReplacement, seen }: HandshakeOptions<S>,
    run: () => Promise<S>,
  ): Promise<S> {
    const api = this.#api ?? undefined
    if (api === undefined) return run()
    const startedAt = Date.now()
    try {
      const session = await run()
      const { isResumed, era, ...where } = seen(session)
      const { resumptions, reinitializations } = instrumentsOf(api)
      if (isReplacement) reinitializations.add(1, serverAttributes(where))
      if (isResumed) {
        resumptions.add(1, serverAttributes(where))
      } else {
        const method = era === 'modern' ? 'server/discover' : 'initialize'
        traceHandshake(api, { startedAt, method, where })
      }
      return session
    } catch (error) {
      traceHandshake(api, { startedAt, method: 'initialize', where: this.#where(), error })
      throw error
    }
  }

  async #find(): Promise<OpenTelemetry | null> {
    const api = this.#given ?? (await installedOpenTelemetry())
    return (this.#api ??= api === undefined || api === false ? null : api)
  }
}

export interface HandshakeOptions<S> {
  /** There was a session before in this life. */
  readonly isReplacement: boolean
  readonly seen: (session: S) => OpenedSession
}
